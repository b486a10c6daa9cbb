// SPDX-License-Identifier: MIT
#pragma once

/// \file
/// What the pieces of a model cost on one GPU of a cluster, and the stages that a layout makes of them.

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include <pipesched/analysis/decorators.hpp>
#include <pipesched/analysis/moe_cost.hpp>
#include <pipesched/analysis/streams.hpp>
#include <pipesched/core/op.hpp>
#include <pipesched/core/schedule_builder.hpp>
#include <pipesched/core/vector.hpp>
#include <pipesched/graph/lower_moe.hpp>
#include <pipesched/planner/cluster.hpp>
#include <pipesched/planner/layout.hpp>
#include <pipesched/planner/model.hpp>
#include <pipesched/planner/model_memory.hpp>
#include <pipesched/planner/partition.hpp>

namespace pipesched {
inline namespace v0 {

/// One piece of the model on one GPU: the embedding, a layer, or the head. Times are seconds for one microbatch.
struct piece_cost {
  moe_cost<double> events{.attention = 0, .dispatch = 0, .mlp = 0, .combine = 0};
  double collectives = 0;           ///< tensor parallelism's part of a forward's computation events
  double collectives_backward = 0;  ///< and of a backward's
  double context = 0;               ///< context parallelism's exposed part of a forward
  double context_backward = 0;      ///< and of a backward
  parameter_count parameters = {};
  std::int64_t activation = 0;  ///< bytes
  std::int64_t besides = 0;     ///< bytes while it runs: what is computed again, and gathered keys and values
};

/// The pieces of `m` on GPUs of `c`.
///
/// Products and attention's core take their operations at the rates that are reached. A backward for the input takes
/// what the forward does with the core twice, and half of the core more where its scores are computed again, as
/// FlashAttention does: five products for the forward's two, at a lower rate; that for the weights takes the products
/// that have weights, and adds what they give to the gradients in memory. The head's products are of 16 bits also where
/// a layer's are FP8. What stands between products reads and writes memory at its rated bandwidth. Tensor parallelism
/// gathers and scatters a layer's activations twice a pass, with nothing beside it. Context parallelism divides a
/// sequence's tokens evenly under the causal mask; it moves keys and values in a forward, and these and their gradients
/// in a backward. The all-to-alls of experts are those of `make_moe_cost`; a token is sent to as many nodes as its
/// experts are spread over, but no more than the gate allows.
class model_costs {
 public:
  model_costs(model_spec const& m, cluster_spec const& c, parallel_sizes const& sizes) : m_(m), c_(c), sizes_(sizes) {
    auto const t = double(sizes.tensor);
    tokens_ = double(m.microbatch * m.sequence) / double(sizes.context);
    core_rate_ = c.bf16_rate * c.attention_share * t;
    head_rate_ = c.bf16_rate * c.bf16_share * t;
    rate_ = m.products == precision::fp8 ? c.fp8_rate * c.fp8_share * t : head_rate_;
  }

  [[nodiscard]] piece_cost embedding() const {
    piece_cost piece;
    auto const moved = 2 * tokens_ * double(2 * m_.hidden) / double(sizes_.tensor);  // read and written, 16 bit
    // Of the gradients, only the rows of the microbatch's tokens are added to.
    set(piece.events.attention, piece.events.attention_backward_input, piece.events.attention_backward_weight,
        {moved / c_.memory_bandwidth, 0, moved / c_.memory_bandwidth});
    set(piece.events.mlp, piece.events.mlp_backward_input, piece.events.mlp_backward_weight, {});
    piece.parameters = embedding_parameters(m_);
    return piece;
  }
  [[nodiscard]] piece_cost head() const {
    piece_cost piece;
    set(piece.events.attention, piece.events.attention_backward_input, piece.events.attention_backward_weight, {});
    set(piece.events.mlp, piece.events.mlp_backward_input, piece.events.mlp_backward_weight, head_passes());
    piece.parameters = head_parameters(m_);
    *piece.events.mlp_backward_weight += accumulation(piece.parameters);
    piece.activation = head_activation_bytes(m_, sizes_.tensor, sizes_.context);
    return piece;
  }
  [[nodiscard]] piece_cost layer(bool experts) const {
    piece_cost piece;
    bool const again = m_.recompute == recomputation::full;
    piece.collectives = tensor_collectives();
    piece.collectives_backward = (again ? 2 : 1) * piece.collectives;
    auto const with_collectives = [&](passes p) {
      p.forward += piece.collectives / 2;
      p.input += piece.collectives / 2;
      if (again) p.input += p.forward;
      return p;
    };
    auto const projections = tokens_ * projection_operations(m_) / rate_;
    auto const core = tokens_ * core_operations(m_, true) / core_rate_;
    bool const some_again = m_.recompute == recomputation::pointwise;
    auto const core_backward = (m_.recompute == recomputation::none ? 2 : 2.5) * core / core_backward_part;
    auto const latent = some_again ? 2 * tokens_ * double(m_.latent_parameters) / rate_ : 0;
    set_context(piece, core, core_backward);
    piece.parameters = layer_parameters(m_, experts);
    parameter_count const of_attention{attention_parameters(m_), 0};
    parameter_count const of_mlp{piece.parameters.shared - of_attention.shared, piece.parameters.expert};
    auto const moved = pointwise_traffic(m_, experts);
    // Norms are divided like activations, the rest among all tensor-parallel ranks.
    auto const touch = [&](double elements) {
      return 2 * tokens_ * elements / (c_.memory_bandwidth * double(sizes_.tensor));
    };
    set(piece.events.attention, piece.events.attention_backward_input, piece.events.attention_backward_weight,
        with_collectives(
            {projections + core + touch(moved.attention) + piece.context,
             projections + core_backward + latent + touch(moved.attention_backward) + gradient_context(piece),
             projections + accumulation(of_attention)}));
    auto const mlp = tokens_ * mlp_operations(m_, experts) / rate_;
    auto const nonlinearity = some_again ? touch(moved.mlp - 4 * double(m_.hidden)) : 0;
    set(piece.events.mlp, piece.events.mlp_backward_input, piece.events.mlp_backward_weight,
        with_collectives(
            {mlp + touch(moved.mlp), mlp + touch(moved.mlp_backward) + nonlinearity, mlp + accumulation(of_mlp)}));
    if (experts && sizes_.expert > 1) set_all_to_alls(piece.events, again);
    piece.activation = layer_activation_bytes(m_, experts, sizes_.tensor, sizes_.context);
    // In a backward the gradients of the gathered keys and values lie beside them.
    piece.besides =
        recomputation_bytes(m_, experts, sizes_.tensor, sizes_.context) +
        (m_.exchange == context_exchange::gather ? 2 : 0) * gathered_bytes(m_, sizes_.tensor, sizes_.context);
    return piece;
  }
  /// A layer of multi-token prediction with its use of the head.
  [[nodiscard]] piece_cost mtp() const {
    auto piece = layer(m_.is_moe());
    auto const projection = tokens_ * 4 * double(m_.hidden) * double(m_.hidden) / rate_;
    auto const head = head_passes();
    piece.events.mlp += projection + head.forward;
    *piece.events.mlp_backward_input += projection + head.input;
    // It adds to the head's gradients too.
    parameter_count const projected{2 * m_.hidden * m_.hidden + head_parameters(m_).shared, 0};
    *piece.events.mlp_backward_weight += projection + head.weight + accumulation(projected);
    piece.parameters = mtp_parameters(m_);
    piece.activation += head_activation_bytes(m_, sizes_.tensor, sizes_.context);
    return piece;
  }

  [[nodiscard]] model_spec const& model() const noexcept { return m_; }
  [[nodiscard]] cluster_spec const& cluster() const noexcept { return c_; }
  [[nodiscard]] parallel_sizes const& sizes() const noexcept { return sizes_; }

  /// Seconds that a microbatch's activations take from one pipeline rank to the next. Neighbouring GPUs serve tensor
  /// parallelism first; pipeline ranks lie on different nodes unless all GPUs are on one.
  [[nodiscard]] double transfer() const noexcept {
    auto const bytes = tokens_ * double(2 * m_.hidden) / double(m_.sequence_parallel ? sizes_.tensor : 1);
    return c_.transfer_latency + bytes / c_.bandwidth_within(c_.gpus);
  }

 private:
  struct passes {
    double forward = 0;
    double input = 0;
    double weight = 0;
  };
  static void set(double& forward, std::optional<double>& input, std::optional<double>& weight, passes times) {
    forward = times.forward;
    input = times.input;
    weight = times.weight;
  }

  /// The output's head without the gradients it adds to: its product, and the loss, which reads logits of 16 bits and
  /// writes their probabilities in 32, and in the backward the reverse.
  [[nodiscard]] passes head_passes() const {
    auto const product = tokens_ * head_operations(m_) / head_rate_;
    auto const loss = tokens_ * double(m_.vocabulary) * (2 + 4) / (c_.memory_bandwidth * double(sizes_.tensor));
    return {product + loss, product + loss, product};
  }
  /// What a microbatch's gradients of these parameters are added to is read and written.
  [[nodiscard]] double accumulation(parameter_count parameters) const {
    return 2 * double(parameters_per_gpu(parameters, sizes_).total() * m_.gradient_bytes) / c_.memory_bandwidth;
  }

  /// Two all-gathers and two reduce-scatters of a microbatch's activations, 16 bit.
  [[nodiscard]] double tensor_collectives() const {
    auto const t = double(sizes_.tensor);
    return 4 * (t - 1) / t * tokens_ * double(2 * m_.hidden) / c_.bandwidth_within(sizes_.tensor);
  }

  /// Keys and values come over the links once in a forward; in a backward they come again and their gradients go. A
  /// ring hides what is no longer than the core on the blocks that came before.
  void set_context(piece_cost& piece, double core, double core_backward) const {
    auto const ranks = double(sizes_.context);
    auto const bytes = double(gathered_bytes(m_, sizes_.tensor, sizes_.context)) * (ranks - 1) / ranks;
    auto const once = bytes / c_.bandwidth_within(sizes_.tensor * sizes_.context);
    bool const hides = m_.exchange == context_exchange::ring;
    auto const exposed = [&](double time, double beside) {
      return hides ? std::max(time - beside * (ranks - 1) / ranks, 0.0) : time;
    };
    piece.context = exposed(once, core);
    piece.context_backward =
        exposed(2 * once, core_backward) + (m_.recompute == recomputation::full ? piece.context : 0);
  }
  /// Of the backward's part, what the forward that is computed again does not have.
  [[nodiscard]] double gradient_context(piece_cost const& piece) const {
    return piece.context_backward - (m_.recompute == recomputation::full ? piece.context : 0);
  }

  void set_all_to_alls(moe_cost<double>& events, bool again) const {
    auto const nodes = double(detail::divided(sizes_.expert, c_.gpus_per_node));
    auto spread = nodes * (1 - std::pow(1 - 1 / nodes, double(m_.top_k)));  // nodes with one of top_k even choices
    if (m_.nodes_per_token > 0) spread = std::min(spread, double(m_.nodes_per_token));
    moe_sizes const layer{.tokens = detail::divided(m_.microbatch * m_.sequence, sizes_.tensor * sizes_.context),
                          .hidden = m_.hidden,
                          .expert_hidden = m_.expert_hidden,
                          .experts = m_.experts,
                          .top_k = m_.top_k,
                          .shared_experts = m_.shared_experts,
                          .nodes_per_token = spread * (1 - 1 / nodes),  // what stays on its node crosses no network
                          .bytes_to_experts = double(detail::product_input_bytes(m_))};
    auto const times =
        make_moe_cost(layer, {c_.nvlink * c_.link_share, c_.network * c_.link_share, rate_ / double(sizes_.tensor)});
    events.dispatch = times.dispatch;
    events.combine = times.combine;
    events.dispatch_backward = times.dispatch_backward;
    events.combine_backward = *times.combine_backward + (again ? times.dispatch : 0);
  }

  /// Of the forward's share of the rate, what the backward of attention's core reaches: FlashAttention-2 reports up to
  /// 0.63 of an A100's rate for it where its forward reaches 0.73 (arXiv 2307.08691, section 1).
  static constexpr double core_backward_part = 0.63 / 0.73;

  model_spec m_;
  cluster_spec c_;
  parallel_sizes sizes_;
  double tokens_;
  double rate_;
  double head_rate_;
  double core_rate_;
};

namespace detail {

/// An overlapped pair of `layers` equal layers with the events of `cost`, lowered and run: its time, and that of its
/// all-to-alls that nothing hides.
inline std::pair<double, double> overlapped_pair(moe_cost<double> const& cost, std::int64_t layers,
                                                 cluster_spec const& c) {
  auto const pair = schedule_builder(placement::linear(1)).rank(0).F(0).F(1).overlapping().B(0).B(1).build();
  auto const graph = lower_moe(pair, {.layers = int(layers)});
  auto const streams =
      analyze_streams(graph, with_sm_partition(cost, int(c.multiprocessors), int(c.communication_multiprocessors)));
  auto const& ran = streams.per_rank.front().pairs.front();
  return {ran.duration(), ran.duration() - ran.computing};
}

}  // namespace detail

/// The ops whose time a layout balances: lone ones, or overlapped pairs, which hide a layer's all-to-alls and so leave
/// the head more of a stage.
enum class balanced_by : std::uint8_t { ops, pairs };

/// The layout whose longest stage is as short as can be, then whose heaviest is as light as can be.
[[nodiscard]] inline pipeline_layout balanced_layout(model_costs const& costs, int stages,
                                                     balanced_by by = balanced_by::ops) {
  auto const& m = costs.model();
  auto const item = [&](piece_cost const& piece) {
    auto const chunk = piece.events.chunk_cost(1);
    bool const hides = by == balanced_by::pairs && piece.events.dispatch > 0;
    return chain_item{hides ? detail::overlapped_pair(piece.events, 1, costs.cluster()).first
                            : chunk.forward + chunk.backward_input + chunk.backward_weight,
                      double(states_of(m, piece.parameters, costs.sizes()).total())};
  };
  detail::vector<chain_item> chain{item(costs.embedding())};
  auto const plain = item(costs.layer(false));
  auto const experts = m.is_moe() ? item(costs.layer(true)) : plain;
  for (std::int64_t i = 0; i < m.layers; ++i) chain.push_back(m.has_experts(i) ? experts : plain);
  for (std::int64_t i = 0; i < m.mtp_layers; ++i) chain.push_back(item(costs.mtp()));
  chain.push_back(item(costs.head()));

  auto const begins = *balance(chain, stages);
  pipeline_layout layout{std::vector<stage_content>(begins.size(), stage_content{})};
  for (std::size_t s = 0; s < begins.size(); ++s) {
    auto& stage = layout.stages[s];
    auto const end = s + 1 < begins.size() ? begins[s + 1] : chain.size();
    for (auto i = begins[s]; i < end; ++i) {
      if (i == 0)
        stage.embedding = true;
      else if (i + 1 == chain.size())
        stage.loss = true;
      else
        ++(i <= std::size_t(m.layers) ? stage.layers : stage.mtp);
    }
  }
  // Megatron-LM's text begins with E and ends with L; an empty stage costs the same before or behind them.
  for (std::size_t s = 1; s < layout.stages.size(); ++s)
    if (layout.stages[s].embedding) std::swap(layout.stages[0], layout.stages[s]);
  for (std::size_t s = 0; s + 1 < layout.stages.size(); ++s)
    if (layout.stages[s].loss) std::swap(layout.stages.back(), layout.stages[s]);
  return layout;
}

/// One stage on one GPU. Times are seconds for one microbatch, memory bytes.
struct stage_figures {
  double forward = 0;
  double backward_input = 0;
  double backward_weight = 0;
  double pair = 0;  ///< an overlapped pair of its forward and its backward
  /// \name Of these, communication with nothing computed beside it
  /// \{
  double exposed_forward = 0;
  double exposed_backward = 0;
  double exposed_pair = 0;
  double exposed_tensor = 0;   ///< tensor parallelism's part, of forward and backward together
  double exposed_context = 0;  ///< context parallelism's
  /// \}
  std::int64_t layers = 0;  ///< with those of multi-token prediction
  parameter_count parameters = {};
  std::int64_t activation = 0;
  std::int64_t besides = 0;  ///< bytes while its fullest layer runs

  [[nodiscard]] double total() const noexcept { return forward + backward_input + backward_weight; }
};

/// The stages of a layout. Of a stage of unequal layers (dense ones and such with experts, the head) each layer of an
/// overlapped pair has the mean's events.
[[nodiscard]] inline detail::vector<stage_figures> stages_of(model_costs const& costs, pipeline_layout const& layout) {
  auto const& m = costs.model();
  auto const embedding = costs.embedding();
  auto const head = costs.head();
  auto const dense = costs.layer(false);
  auto const experts = m.is_moe() ? costs.layer(true) : dense;

  struct lowered_pair {
    stage_content content;
    std::int64_t with_experts;
    std::pair<double, double> times;
  };
  detail::vector<lowered_pair> lowered;  // equal stages need it once
  detail::vector<stage_figures> stages;
  std::int64_t layer = 0;
  for (auto const& content : layout.stages) {
    stage_figures stage;
    moe_cost<double> sum{0, 0, 0, 0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0};
    std::int64_t with_experts = 0;
    auto const add = [&](piece_cost const& piece) {
      auto const chunk = piece.events.chunk_cost(1);
      stage.forward += chunk.forward;
      stage.backward_input += chunk.backward_input;
      stage.backward_weight += chunk.backward_weight;
      stage.exposed_forward += piece.events.dispatch + piece.events.combine + piece.collectives + piece.context;
      auto const& e = piece.events;
      auto const gradients = e.dispatch_backward.value_or(e.dispatch) + e.combine_backward.value_or(e.combine);
      stage.exposed_backward += gradients + piece.collectives_backward + piece.context_backward;
      stage.exposed_tensor += piece.collectives + piece.collectives_backward;
      stage.exposed_context += piece.context + piece.context_backward;
      with_experts += e.dispatch > 0;
      stage.parameters += piece.parameters;
      stage.activation += piece.activation;
      stage.besides = std::max(stage.besides, piece.besides);
      sum.attention += e.attention;
      sum.dispatch += e.dispatch;
      sum.mlp += e.mlp;
      sum.combine += e.combine;
      *sum.attention_backward_input += *e.attention_backward_input;
      *sum.attention_backward_weight += *e.attention_backward_weight;
      *sum.mlp_backward_input += *e.mlp_backward_input;
      *sum.mlp_backward_weight += *e.mlp_backward_weight;
      *sum.dispatch_backward += e.dispatch_backward.value_or(e.dispatch);
      *sum.combine_backward += e.combine_backward.value_or(e.combine);
    };
    if (content.embedding) add(embedding);
    for (std::int64_t i = 0; i < content.layers; ++i) add(m.has_experts(layer++) ? experts : dense);
    for (std::int64_t i = 0; i < content.mtp; ++i) add(costs.mtp());
    if (content.loss) add(head);
    stage.layers = content.layers + content.mtp;

    stage.pair = stage.total();
    stage.exposed_pair = stage.exposed_forward + stage.exposed_backward;
    if (with_experts > 0) {
      auto known = std::find_if(lowered.begin(), lowered.end(), [&](lowered_pair const& pair) {
        return pair.content == content && pair.with_experts == with_experts;
      });
      if (known == lowered.end()) {
        auto const n = double(stage.layers);
        moe_cost<double> const mean{sum.attention / n,
                                    sum.dispatch / n,
                                    sum.mlp / n,
                                    sum.combine / n,
                                    *sum.attention_backward_input / n,
                                    *sum.attention_backward_weight / n,
                                    *sum.mlp_backward_input / n,
                                    *sum.mlp_backward_weight / n,
                                    *sum.dispatch_backward / n,
                                    *sum.combine_backward / n};
        auto const times = detail::overlapped_pair(mean, stage.layers, costs.cluster());
        known = lowered.insert(lowered.end(), lowered_pair{content, with_experts, times});
      }
      stage.pair = known->times.first;
      stage.exposed_pair = known->times.second + stage.exposed_tensor + stage.exposed_context;
    }
    stages.push_back(stage);
  }
  return stages;
}

}  // namespace v0
}  // namespace pipesched
