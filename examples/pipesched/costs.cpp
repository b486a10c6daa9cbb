// SPDX-License-Identifier: MIT
#include "costs.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <string_view>
#include <type_traits>

#include <fmt/format.h>

#include "cost_file.hpp"
#include "usage_error.hpp"

namespace {

std::vector<decimal> parse_list(std::string_view parameter, std::string_view text) {
  std::vector<decimal> values;
  for (;;) {
    auto const comma = text.find(',');
    values.push_back(parse_time(parameter, text.substr(0, comma)));
    if (comma == std::string_view::npos) return values;
    text.remove_prefix(comma + 1);
  }
}

/// `value * factor / divisor`, whole where that is.
decimal scaled(decimal value, decimal factor, int divisor) {
  std::int64_t product = 0;
  if (value.whole && factor.whole && !__builtin_mul_overflow(*value.whole, *factor.whole, &product) &&
      product % divisor == 0)
    return decimal::of(product / divisor);
  return {value.real * factor.real / divisor, std::nullopt};
}

double mean(std::vector<decimal> const& values) {
  double sum = 0;
  for (auto const& value : values) sum += value.real / static_cast<double>(values.size());
  return sum;
}

bool all_whole(std::vector<decimal> const& values) {
  for (auto const& value : values)
    if (!value.whole) return false;
  return true;
}

template <class T>
std::vector<T> as(std::vector<decimal> const& values) {
  std::vector<T> result;
  for (auto const& value : values)
    if constexpr (std::is_integral_v<T>)
      result.push_back(*value.whole);
    else
      result.push_back(value.real);
  return result;
}

template <class T>
pipesched::stage_cost<T> as_cost(stage_times const& times) {
  return {as<T>(times.forward), as<T>(times.backward_input), as<T>(times.backward_weight), as<T>(times.overlapped),
          as<T>({times.latency}).front()};
}

/// One entry per stage: the list itself, or its only entry for all.
void spread(std::string_view parameter, std::vector<decimal>& values, int stages) {
  if (values.size() == 1) values.resize(std::size_t(stages), decimal(values.front()));
  if (values.size() != std::size_t(stages))
    throw usage_error(
        fmt::format("{} (number of entries) = {}, must be {} (one per stage)", parameter, values.size(), stages));
}

}  // namespace

void cost_options::add_to(CLI::App& command) {
  auto const group = std::string("COST");
  std::vector<CLI::Option*> chunk_times{
      command.add_option("--forward", forward_, "Time of a stage's forward (default 1)"),
      command.add_option("--backward-input", backward_input_, "Time of its backward for the input (default 1)"),
      command.add_option("--backward-weight", backward_weight_, "Time of its backward for the weights (default 1)"),
      command.add_option("--overlapped", overlapped_, "Time of an overlapped pair (default: forward and backward)"),
      command
          .add_option("--cost-per", per_, "The times are of a stage, or of a rank: then each of its v chunks takes 1/v")
          ->check(CLI::IsMember({"stage", "rank"})),
      command.add_option("--cost", file_,
                         "A JSON file of times, per stage and kind: {\"forward\": [1, 1, 1, 2], \"backward_input\": 1, "
                         "\"backward_weight\": 1, \"overlapped\": 3, \"latency\": 0}")};
  for (auto* const option : chunk_times) option->group(group);
  command.add_option("--latency", latency_, "Time from one rank to another (default 0)")->group(group);
  command.add_option("--stage-scale", stage_scale_, "One factor per stage: 1,1,1,2")->group(group);
  moe_.add_to(command, chunk_times);
}

std::vector<decimal> cost_options::factors_of(int stages) const {
  std::vector<decimal> factors{decimal::of(std::int64_t{1})};
  if (!stage_scale_.empty()) {
    factors = parse_list("stage-scale", stage_scale_);
    if (factors.size() != std::size_t(stages))
      throw usage_error(
          fmt::format("stage-scale (number of factors) = {}, must be {} (one per stage)", factors.size(), stages));
  }
  spread("stage-scale", factors, stages);
  return factors;
}

pipesched::op_graph cost_options::lowered(pipesched::op_graph chunks) const {
  if (!lowers()) return chunks;
  return pipesched::lower_moe(chunks, moe_.lowering());
}

any_moe_cost cost_options::for_events(int stages) const {
  return moe_.costs(parse_time("latency", latency_), factors_of(stages));
}

stage_times cost_options::given_times() const {
  stage_times times{{parse_time("forward", forward_)},
                    {parse_time("backward-input", backward_input_)},
                    {parse_time("backward-weight", backward_weight_)},
                    {},
                    parse_time("latency", latency_)};
  if (!overlapped_.empty()) times.overlapped = {parse_time("overlapped", overlapped_)};
  if (!file_.empty()) {
    auto const read = read_cost_file(file_);
    if (!read.forward.empty()) times.forward = read.forward;
    if (!read.backward_input.empty()) times.backward_input = read.backward_input;
    if (!read.backward_weight.empty()) times.backward_weight = read.backward_weight;
    if (!read.overlapped.empty()) times.overlapped = read.overlapped;
    if (read.latency) times.latency = *read.latency;
  }
  return times;
}

pipesched::uniform_cost<double> cost_options::mean_chunk_times() const {
  if (lowers()) return moe_.chunk_times(parse_time("latency", latency_));
  auto const times = given_times();
  return {mean(times.forward), mean(times.backward_input), mean(times.backward_weight), {}, times.latency.real};
}

pipesched::pass_times cost_options::pass_times(std::int64_t stages_per_rank) const {
  double const share = per_rank() ? 1.0 / static_cast<double>(stages_per_rank) : 1.0;
  double const factor = stage_scale_.empty() ? share : share * mean(parse_list("stage-scale", stage_scale_));
  auto const chunk = mean_chunk_times();
  std::array real{chunk.forward * factor, chunk.backward_input * factor, chunk.backward_weight * factor, chunk.latency};
  // Only the ratios count, and a schedule's own times are whole numbers of 64 bits.
  constexpr double most = 1e6;
  if (double const longest = *std::max_element(real.begin(), real.end()); longest > most)
    for (double& time : real) time *= most / longest;
  return pipesched::pass_times::of(real[0], real[1], real[2], real[3]);
}

any_cost cost_options::for_stages(int stages, int ranks) const {
  auto times = given_times();
  auto const factors = factors_of(stages);
  int const chunks = per_rank() ? std::max(1, stages / ranks) : 1;

  struct kind {
    std::string_view name;
    std::vector<decimal>* times;
  };
  for (auto [name, list] : {kind{"forward", &times.forward}, kind{"backward-input", &times.backward_input},
                            kind{"backward-weight", &times.backward_weight}, kind{"overlapped", &times.overlapped}}) {
    if (list->empty()) continue;
    spread(name, *list, stages);
    for (std::size_t s = 0; s < list->size(); ++s) (*list)[s] = scaled((*list)[s], factors[s], chunks);
  }

  bool const whole = all_whole(times.forward) && all_whole(times.backward_input) && all_whole(times.backward_weight) &&
                     all_whole(times.overlapped) && times.latency.whole;
  if (whole) return as_cost<std::int64_t>(times);
  return as_cost<double>(times);
}
