// SPDX-License-Identifier: MIT
#include "costs.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <string_view>
#include <type_traits>

#include <fmt/format.h>

#include "usage_error.hpp"

namespace {

using pipesched::op;
using pipesched::op_kind;

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

std::vector<decimal> decimals(std::vector<double> const& values) {
  std::vector<decimal> result;
  for (double const value : values) result.push_back(decimal::of(value));
  return result;
}

/// The times that the option or the file of --cost gives; where neither does, those that stand.
void choose(std::string_view name, std::optional<std::string> const& option, std::vector<decimal> const& of_file,
            std::vector<decimal>& times) {
  if (option && !of_file.empty())
    throw usage_error(fmt::format("--{}: the file of --cost gives this time too: give one", name));
  if (option) times = {parse_time(name, *option)};
  if (!of_file.empty()) times = of_file;
}

/// Means of the kinds of a run's ops. A full backward that was measured whole is half and half.
pipesched::uniform_cost<double> means_of(std::vector<pipesched::measured_op> const& run) {
  auto const mean_of = [&](op_kind kind) {
    std::vector<decimal> times;
    for (auto const& m : run)
      if (m.what.kind() == kind && !m.what.overlaps_next()) times.push_back(decimal::of(m.duration));
    return mean(times);
  };
  double const backward = mean_of(op_kind::backward);
  double const input = mean_of(op_kind::backward_input);
  double const weight = mean_of(op_kind::backward_weight);
  bool const whole = input == 0 && weight == 0;
  return {mean_of(op_kind::forward), whole ? backward / 2 : input, whole ? backward / 2 : weight, {}, 0};
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
  auto const add_time = [&](std::string const& name, std::optional<std::string>& value, std::string const& help) {
    return command.add_option(name, value, help)->type_name("NUMBER");
  };
  std::vector<CLI::Option*> const chunk_times{
      add_time("--forward", forward_, "Time of a stage's forward (default 1)"),
      add_time("--backward-input", backward_input_, "Time of its backward for the input (default 1)"),
      add_time("--backward-weight", backward_weight_, "Time of its backward for the weights (default 1)"),
      add_time("--overlapped", overlapped_, "Time of an overlapped pair (default: forward and backward)"),
      command
          .add_option("--cost-per", per_, "The times are of a stage, or of a rank: then each of its v chunks takes 1/v")
          ->check(CLI::IsMember({"stage", "rank"})),
      command
          .add_option_function<std::string>(
              "--cost", [this](std::string const& path) { file_ = read_cost_file(path); },
              "A file of times: per stage and kind, {\"forward\": [1, 1, 1, 2], \"backward_input\": 1, "
              "\"backward_weight\": 1, \"overlapped\": 3, \"latency\": 0}, or measured, as a trace, JSON or CSV")
          ->type_name("FILE")};
  for (auto* const option : chunk_times) option->group(group);
  add_time("--latency", latency_, "Time from one rank to another (default 0)")->group(group);
  command.add_option("--stage-scale", stage_scale_, "One factor per stage: 1,1,1,2")
      ->type_name("NUMBERS")
      ->group(group);
  // CLI11's own `excludes` would repeat all of one list at each option of the other in the help.
  command.parse_complete_callback([events = moe_.add_to(command), chunk_times] {
    for (auto const* event : events)
      for (auto const* chunk_time : chunk_times)
        if (event->count() > 0 && chunk_time->count() > 0)
          throw usage_error(event->get_name() + " excludes " + chunk_time->get_name() +
                            ": times are those of whole stages or those of a layer's events");
  });
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
  return moe_.costs(parse_time("latency", latency_.value_or("0")), factors_of(stages));
}

cost_options cost_options::with_times_of(schedule_file const& file) const {
  auto options = *this;
  options.schedule_costs_ = file.costs;
  options.schedule_run_ = file.measured;
  return options;
}

bool cost_options::stage_times_given() const { return forward_ || backward_input_ || backward_weight_ || overlapped_; }

bool cost_options::given() const {
  return stage_times_given() || latency_ || per_rank() || !stage_scale_.empty() || file_ || schedule_costs_;
}

std::vector<pipesched::measured_op> const& cost_options::measured_ops() const {
  static std::vector<pipesched::measured_op> const none;
  if (lowers()) return none;
  if (file_) return file_->measured;
  return stage_times_given() || schedule_costs_ ? none : schedule_run_;
}

std::vector<pipesched::measured_op> const& cost_options::known_run() const {
  return measured() ? measured_ops() : schedule_run_;
}

pipesched::measured_cost cost_options::for_ops_of(pipesched::schedule const& schedule) const {
  if (stage_times_given() || per_rank() || !stage_scale_.empty())
    throw usage_error("measured times are of single ops: --latency alone goes with them");
  auto const& run = measured_ops();
  // By stage and kind, apart by whether it is a pair: what has no time of its own takes the mean of these.
  auto const bit = [](op_kind kind, bool pair) { return 1U << (2 * static_cast<unsigned>(kind) + (pair ? 1U : 0U)); };
  std::vector<unsigned> known(std::size_t(schedule.stages()), 0U);
  for (auto const& m : run)
    if (m.what.stage() < schedule.stages())
      known[std::size_t(m.what.stage())] |= bit(m.what.kind(), m.what.overlaps_next());
  auto const knows = [&](op o, bool pair) { return (known[std::size_t(o.stage())] & bit(o.kind(), pair)) != 0; };
  for (int rank = 0; rank < schedule.ranks(); ++rank) {
    auto const program = schedule.program(rank);
    for (std::size_t i = 0; i < program.size(); ++i) {
      bool const begins_pair = program[i].overlaps_next();
      bool const ends_pair = i > 0 && program[i - 1].overlaps_next();
      if (knows(program[i], false) || (begins_pair && knows(program[i], true)) ||
          (ends_pair && knows(program[i - 1], true)))
        continue;
      throw usage_error(
          fmt::format("{}: has no measured time, nor has any op of its stage and kind", to_string(program[i].alone())));
    }
  }
  return pipesched::measured_cost(run, latency_ ? parse_time("latency", *latency_).real : 0.0);
}

stage_times cost_options::given_times() const {
  auto const one = std::vector{decimal::of(std::int64_t{1})};
  stage_times times{one, one, one, {}, decimal::of(std::int64_t{0})};
  if (schedule_costs_) {
    auto const& costs = *schedule_costs_;
    times = {decimals(costs.forward), decimals(costs.backward_input), decimals(costs.backward_weight),
             decimals(costs.overlapped), decimal::of(costs.latency)};
  }
  auto const file = file_.value_or(cost_file{});
  choose("forward", forward_, file.forward, times.forward);
  choose("backward-input", backward_input_, file.backward_input, times.backward_input);
  choose("backward-weight", backward_weight_, file.backward_weight, times.backward_weight);
  choose("overlapped", overlapped_, file.overlapped, times.overlapped);
  std::vector<decimal> latency{times.latency};
  choose("latency", latency_, file.latency ? std::vector{*file.latency} : std::vector<decimal>{}, latency);
  times.latency = latency.front();
  return times;
}

pipesched::uniform_cost<double> cost_options::mean_chunk_times() const {
  if (lowers()) return moe_.chunk_times(parse_time("latency", latency_.value_or("0")));
  if (measured()) {
    auto means = means_of(measured_ops());
    if (latency_) means.latency = parse_time("latency", *latency_).real;
    return means;
  }
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

pipesched::stage_cost<double> cost_options::real_times(int stages, int ranks) const {
  auto const real = [](auto const& times) { return std::vector<double>(times.begin(), times.end()); };
  return std::visit(
      [&](auto const& cost) -> pipesched::stage_cost<double> {
        return {real(cost.forward), real(cost.backward_input), real(cost.backward_weight), real(cost.overlapped),
                static_cast<double>(cost.latency)};
      },
      for_stages(stages, ranks));
}
