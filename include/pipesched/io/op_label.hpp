// SPDX-License-Identifier: MIT
#pragma once

/// \file
/// The short label of an op in a picture: "F7", and which of a rank's stages or directions it belongs to.

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include <fmt/format.h>

#include <pipesched/core/op.hpp>
#include <pipesched/core/placement.hpp>
#include <pipesched/core/vector.hpp>

namespace pipesched {
inline namespace v0 {

/// The letters of an op: F, B, I, W for what schedules are made of; for events what it is and which pass: "AF" is
/// attention of a forward, "DB" a dispatch of a backward.
[[nodiscard]] constexpr std::string_view short_name_of(op_kind kind) noexcept {
  switch (kind) {
    case op_kind::attention_forward: return "AF";
    case op_kind::attention_backward_input: return "AI";
    case op_kind::attention_backward_weight: return "AW";
    case op_kind::mlp_forward: return "MF";
    case op_kind::mlp_backward_input: return "MI";
    case op_kind::mlp_backward_weight: return "MW";
    case op_kind::dispatch_forward: return "DF";
    case op_kind::dispatch_backward: return "DB";
    case op_kind::combine_forward: return "CF";
    case op_kind::combine_backward: return "CB";
    case op_kind::send_forward: return "SF";
    case op_kind::recv_forward: return "RF";
    case op_kind::send_backward: return "SB";
    case op_kind::recv_backward: return "RB";
    default: return name_of(kind);
  }
}

/// Names ops within their rank: by kind, microbatch, and the *variant*, which tells the rank's stages apart. Of a
/// bidirectional placement it is the direction (the replica), else the chunk.
class op_labels {
 public:
  explicit op_labels(placement const& where)
      : stages_(std::size_t(where.stages())), variant_(stages_ * std::size_t(where.replicas()), 0) {
    detail::vector<int> held(std::size_t(where.ranks()), 0);
    for (int stage = 0; stage < where.stages(); ++stage)
      for (int replica = 0; replica < where.replicas(); ++replica) {
        int const chunk = held[std::size_t(where.rank_of(stage, replica))]++;
        int const variant = where.kind() == placement_kind::bidirectional ? replica : chunk;
        variant_[index(stage, replica)] = variant;
        if (variant >= variants_) variants_ = variant + 1;
      }
    directions_ = where.kind() == placement_kind::bidirectional;
  }

  /// The most variants of any rank.
  [[nodiscard]] int variants() const noexcept { return variants_; }
  /// Whether variants are directions.
  [[nodiscard]] bool directions() const noexcept { return directions_; }
  [[nodiscard]] int variant(op o) const noexcept { return variant_[index(o.stage(), o.replica())]; }

  /// "F7"; the second of two variants in lower case, "f7"; one of more than two with a letter, "F7c".
  [[nodiscard]] std::string letters(op o) const {
    std::string text{short_name_of(o.kind())};
    if (variants_ == 2 && variant(o) == 1)
      for (char& c : text) c = static_cast<char>(c - 'A' + 'a');
    return text;
  }
  /// What follows the microbatch: nothing, or of more than two variants which one.
  [[nodiscard]] std::string suffix(op o) const {
    if (variants_ > 26) return fmt::format("/{}", variant(o));
    return variants_ > 2 ? std::string(1, static_cast<char>('a' + variant(o))) : std::string();
  }
  [[nodiscard]] std::string operator()(op o) const {
    return fmt::format("{}{}{}", letters(o), o.microbatch(), suffix(o));
  }

 private:
  [[nodiscard]] std::size_t index(int stage, int replica) const noexcept {
    return std::size_t(replica) * stages_ + std::size_t(stage);
  }

  std::size_t stages_;
  detail::vector<int> variant_;
  int variants_ = 1;
  bool directions_ = false;
};

}  // namespace v0
}  // namespace pipesched
