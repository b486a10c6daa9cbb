// SPDX-License-Identifier: MIT
#include "support/catch.hpp"

#include <type_traits>

#include <pipesched/core/op.hpp>

using namespace pipesched;

static_assert(sizeof(op) == 8 && std::is_trivially_copyable_v<op>);
static_assert(!std::is_convertible_v<stage_id, microbatch_id> && !std::is_convertible_v<int, stage_id>);
static_assert(!std::is_constructible_v<op, op_kind, microbatch_id, stage_id>);

TEST_CASE("The packed op has the same value on every compiler", "[core][op]") {
  STATIC_REQUIRE(forward(stage_id{0}, microbatch_id{0}).packed() == 0);
  STATIC_REQUIRE(backward(stage_id{3}, microbatch_id{7}).packed() == 0x0100'0003'0000'0007ULL);
  STATIC_REQUIRE(backward_input(stage_id{0x1234}, microbatch_id{0x89ABCDEF}, replica_id{5}).packed() ==
                 0x0205'1234'89AB'CDEFULL);
  STATIC_REQUIRE(backward_weight(stage_id{1}, microbatch_id{2}).packed() == 0x0300'0001'0000'0002ULL);
  STATIC_REQUIRE(forward(stage_id{1}, microbatch_id{2}).overlapping_next().packed() == 0x8000'0001'0000'0002ULL);
}

TEST_CASE("An op gives back what it was made of, at the ends of every field", "[core][op]") {
  for (auto kind : {op_kind::forward, op_kind::backward_weight, op_kind::recv_backward})
    for (int stage : {0, 1, 65535})
      for (std::int64_t microbatch : {std::int64_t{0}, std::int64_t{1}, std::int64_t{0xFFFFFFFF}})
        for (int replica : {0, 255}) {
          op const o(kind, stage_id{stage}, microbatch_id{microbatch}, replica_id{replica});
          REQUIRE(o.kind() == kind);
          REQUIRE(o.stage() == stage);
          REQUIRE(o.microbatch() == microbatch);
          REQUIRE(o.replica() == replica);
          REQUIRE_FALSE(o.overlaps_next());
          REQUIRE(op::from_packed(o.packed()) == o);
          auto const opening = o.overlapping_next();
          REQUIRE(opening.overlaps_next());
          REQUIRE(opening != o);
          REQUIRE(opening.alone() == o);
          REQUIRE(opening.as(op_kind::backward) ==
                  op(op_kind::backward, stage_id{stage}, microbatch_id{microbatch}, replica_id{replica}));
        }
}

TEST_CASE("An op is written as torch.distributed.pipelining writes it", "[core][op]") {
  REQUIRE(to_string(forward(stage_id{0}, microbatch_id{12})) == "0F12");
  REQUIRE(to_string(backward(stage_id{3}, microbatch_id{0})) == "3B0");
  REQUIRE(to_string(backward_input(stage_id{3}, microbatch_id{0})) == "3I0");
  REQUIRE(to_string(backward_weight(stage_id{3}, microbatch_id{0})) == "3W0");
  REQUIRE(to_string(op(op_kind::send_forward, stage_id{1}, microbatch_id{2})) == "1SEND_F2");
}
