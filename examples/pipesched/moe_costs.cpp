// SPDX-License-Identifier: MIT
#include "moe_costs.hpp"

#include <algorithm>
#include <cstddef>
#include <string_view>

#include <fmt/format.h>

namespace {

using optional_decimals = std::array<std::optional<decimal>, 10>;

/// The times of one layer; the first four have a default, the others take a forward one's.
struct time_option {
  std::string_view name;
  std::string_view help;
};
constexpr std::array<time_option, 10> time_options{{
    {"attention", "Time of a layer's attention, forward (default 1)"},
    {"dispatch", "Time of the all-to-all to the experts (default 1)"},
    {"mlp", "Time of the experts, forward (default 1)"},
    {"combine", "Time of the all-to-all back from the experts (default 1)"},
    {"attention-backward-input", "(default: as --attention)"},
    {"attention-backward-weight", "(default: as --attention)"},
    {"mlp-backward-input", "(default: as --mlp)"},
    {"mlp-backward-weight", "(default: as --mlp)"},
    {"dispatch-backward", "Time of the gradients' way back (default: as --dispatch)"},
    {"combine-backward", "Time of the gradients' way to the experts (default: as --combine)"},
}};

template <class T>
T as(decimal value) {
  if constexpr (std::is_integral_v<T>)
    return *value.whole;
  else
    return value.real;
}

template <class T>
scaled_moe_cost<T> scaled_cost(optional_decimals const& times, decimal latency, std::vector<decimal> const& factors) {
  auto const forward = [&](std::size_t i) { return times[i] ? as<T>(*times[i]) : T{1}; };
  auto const backward = [&](std::size_t i) { return times[i] ? std::optional<T>(as<T>(*times[i])) : std::nullopt; };
  pipesched::moe_cost<T> const layer{.attention = forward(0),
                                     .dispatch = forward(1),
                                     .mlp = forward(2),
                                     .combine = forward(3),
                                     .attention_backward_input = backward(4),
                                     .attention_backward_weight = backward(5),
                                     .mlp_backward_input = backward(6),
                                     .mlp_backward_weight = backward(7),
                                     .dispatch_backward = backward(8),
                                     .combine_backward = backward(9),
                                     .latency = as<T>(latency)};
  stage_factors<T> of_stages;
  for (auto const& factor : factors) of_stages.of_stage.push_back(as<T>(factor));
  return pipesched::with_stragglers(layer, of_stages);
}

/// Whether every whole time times every whole factor is a whole number that fits.
bool products_fit(optional_decimals const& times, std::vector<decimal> const& factors) {
  for (auto const& time : times)
    for (auto const& factor : factors) {
      std::int64_t product = 0;
      if (time && time->whole && factor.whole && __builtin_mul_overflow(*time->whole, *factor.whole, &product))
        return false;
    }
  return true;
}

}  // namespace

std::vector<CLI::Option*> moe_cost_options::add_to(CLI::App& command) {
  std::vector<CLI::Option*> added;
  added.push_back(command.add_option("--moe-layers", layers_, "Mixture-of-experts layers of each stage (default 1)"));
  for (std::size_t i = 0; i < times_.size(); ++i)
    added.push_back(
        command.add_option(fmt::format("--{}", time_options[i].name), times_[i], std::string(time_options[i].help)));
  added.push_back(command.add_option("--sm-total", sm_total_, "Multiprocessors of a GPU (default 132 where divided)"));
  added.push_back(command.add_option(
      "--sm-comm", sm_comm_, "Those that serve communication while a pair overlaps (default 20 where divided)"));
  added.push_back(command.add_flag("--moe-asynchronous", asynchronous_,
                                   "A chunk's last all-to-all runs into the next op instead of blocking it"));
  for (auto* const option : added) {
    option->group("MoE (times of a layer's events; none goes with the times of whole stages in COST)");
    if (option->get_expected_max() > 0) option->type_name("NUMBER");
  }
  return added;
}

bool moe_cost_options::given() const {
  return layers_ || sm_total_ || sm_comm_ || asynchronous_ ||
         std::any_of(times_.begin(), times_.end(), [](auto const& time) { return time.has_value(); });
}

pipesched::moe_options moe_cost_options::lowering() const {
  return {.layers = layers_ ? static_cast<int>(parse_count("moe-layers", *layers_)) : 1,
          .asynchronous_last_communication = asynchronous_};
}

optional_decimals moe_cost_options::given_times() const {
  optional_decimals times;
  for (std::size_t i = 0; i < times.size(); ++i)
    if (times_[i]) times[i] = parse_time(time_options[i].name, *times_[i]);
  return times;
}

pipesched::uniform_cost<double> moe_cost_options::chunk_times(decimal latency) const {
  return scaled_cost<double>(given_times(), latency, {}).inner.chunk_cost(lowering().layers);
}

any_moe_cost moe_cost_options::costs(decimal latency, std::vector<decimal> const& factors) const {
  auto const times = given_times();
  bool whole = latency.whole.has_value();
  for (auto const& time : times) whole = whole && (!time || time->whole);
  for (auto const& factor : factors) whole = whole && factor.whole;
  whole = whole && products_fit(times, factors);

  if (sm_total_ || sm_comm_) {
    int const total = sm_total_ ? static_cast<int>(parse_count("sm-total", *sm_total_)) : 132;
    int const comm = sm_comm_ ? static_cast<int>(parse_count("sm-comm", *sm_comm_, 0)) : 20;
    return pipesched::with_sm_partition(scaled_cost<double>(times, latency, factors), total, comm);
  }
  if (whole) return scaled_cost<std::int64_t>(times, latency, factors);
  return scaled_cost<double>(times, latency, factors);
}
