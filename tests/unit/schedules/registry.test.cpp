// SPDX-License-Identifier: MIT
#include "support/catch.hpp"

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <pipesched/core/schedule.hpp>
#include <pipesched/schedules/registry.hpp>

using namespace pipesched;

static_assert(stages_per_rank<interleaved>({.ranks = 4}) == 2);
static_assert(stages_per_rank<interleaved>({.ranks = 4, .chunks = 3}) == 3);
static_assert(stages_per_rank<zb_v>({.ranks = 5}) == 2);
static_assert(stages_per_rank<dual_pipe>({.ranks = 5}) == 1);
static_assert(!check_shape<one_f_one_b>({.ranks = 4, .microbatches = 8}));
static_assert(check_shape<dual_pipe>({.ranks = 4, .microbatches = 7}));
static_assert(make_generator<interleaved>({.ranks = 4, .microbatches = 8, .chunks = 3}).chunks == 3);

TEST_CASE("The registry knows every schedule by one name", "[schedules][registry]") {
  std::vector<std::string_view> names(schedule_names.begin(), schedule_names.end());
  std::sort(names.begin(), names.end());
  CHECK(std::adjacent_find(names.begin(), names.end()) == names.end());
  for (auto const* name :
       {"gpipe", "1f1b", "eager-1f1b", "interleaved-1f1b", "looped-bfs", "zb-h1", "zb-h2", "interleaved-zb", "zb-v",
        "chimera", "dualpipe", "dualpipe-v", "1f1b-overlap", "interleaved-1f1b-overlap"})
    CHECK(std::binary_search(names.begin(), names.end(), std::string_view(name)));
  CHECK(unknown_schedule_message("x").find("unknown schedule 'x'; known are gpipe, 1f1b, ") == 0);
}

TEST_CASE("A schedule made by name is the generator's own", "[schedules][registry]") {
  std::uint64_t digest = 0;
  CHECK(with_schedule("interleaved-1f1b", {.ranks = 4, .microbatches = 6, .chunks = 3, .group = 6},
                      [&](auto const& generator) { digest = digest_of(generator); }));
  CHECK(digest == digest_of(interleaved{.ranks = 4, .microbatches = 6, .chunks = 3, .group = 6}));
  CHECK_FALSE(with_schedule("1F1B", {}, [](auto const&) {}));

  int visited = 0;
  for_each_schedule([&]<class Generator>() {
    ++visited;
    CHECK(with_schedule(Generator::info.name, {.ranks = 4, .microbatches = 8},
                        [](auto const& generator) { CHECK(name_of(generator) == Generator::info.name); }));
    CHECK_FALSE(Generator::info.parameters.empty());
    CHECK_FALSE(Generator::info.limits.empty());
    CHECK_FALSE(Generator::info.source.empty());
  });
  CHECK(visited == int(schedule_names.size()));
}

TEST_CASE("A shape that does not suit a schedule is refused by name", "[schedules][registry]") {
  auto const refused = [](std::string_view schedule, shape const& wanted, std::string_view parameter) {
    INFO(schedule);
    bool thrown = false;
    try {
      with_schedule(schedule, wanted, [](auto const&) {});
    } catch (parameter_error const& error) {
      thrown = true;
      CHECK(error.violation().parameter == parameter);
    }
    CHECK(thrown);
  };
  for (auto const schedule : schedule_names) {
    refused(schedule, {.ranks = 0, .microbatches = 8}, "ranks");
    refused(schedule, {.ranks = 4, .microbatches = 0}, "microbatches");
    refused(schedule, {.ranks = std::int64_t{1} << 33, .microbatches = 8}, "ranks");
    refused(schedule, {.ranks = 4, .microbatches = std::int64_t{1} << 32}, "microbatches");
    refused(schedule, {.ranks = 4, .microbatches = 8, .chunks = 0}, "chunks");
    refused(schedule, {.ranks = 4, .microbatches = 8, .group = 0}, "group");
    refused(schedule, {.ranks = 4, .microbatches = 8, .pipelines = -1}, "pipelines");
  }
  refused("1f1b", {.ranks = 4, .microbatches = 8, .chunks = 2}, "chunks");
  refused("1f1b", {.ranks = 4, .microbatches = 8, .group = 4}, "group");
  refused("dualpipe", {.ranks = 4, .microbatches = 8, .pipelines = 4}, "pipelines");
  refused("interleaved-1f1b", {.ranks = 4, .microbatches = 8, .chunks = 2, .group = 2}, "group");
}

TEST_CASE("Of a shape for all, each schedule takes what it has", "[schedules][registry]") {
  shape const all{.ranks = 4, .microbatches = 8, .chunks = 3, .group = 4, .pipelines = 4};
  for_each_schedule([&]<class Generator>() {
    INFO(Generator::info.name);
    CHECK_FALSE(check_shape<Generator>(applicable<Generator>(all)));
  });
  CHECK(applicable<interleaved>(all).chunks == 3);
  CHECK_FALSE(applicable<one_f_one_b>(all).chunks);
  CHECK(applicable<chimera>(all).pipelines == 4);
}
