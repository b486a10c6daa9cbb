// SPDX-License-Identifier: MIT
#pragma once

/// \file
/// Why one node waits for another.

#include <cstdint>
#include <string_view>

#include <pipesched/core/ids.hpp>

namespace pipesched {
inline namespace v0 {

/// The most nodes of a graph: a `graph_link` numbers them with 28 bits.
inline constexpr std::int64_t max_nodes = (std::int64_t{1} << 28) - 1;

/// The type of a dependency.
enum class edge_kind : std::uint8_t {
  activation,  ///< F(s-1,b) -> F(s,b), or along a skip connection
  gradient,    ///< B or I (s+1,b) -> B or I (s,b), or along a skip connection
  stash,       ///< F(s,b) -> B or I (s,b)
  weight,      ///< I(s,b) -> W(s,b)
  chunk,       ///< between the events of one lowered chunk or pair, and to the next one where its communication blocks
  custom,      ///< the user's own; `custom_2` and `custom_3` tell several apart
  custom_2,
  custom_3,
  program,  ///< the node before it on the same stream of the same rank
  pair,     ///< the two members of an overlapped pair, which start and end together
};

[[nodiscard]] constexpr std::string_view name_of(edge_kind kind) noexcept {
  switch (kind) {
    case edge_kind::activation: return "activation";
    case edge_kind::gradient: return "gradient";
    case edge_kind::stash: return "stash";
    case edge_kind::weight: return "weight";
    case edge_kind::chunk: return "chunk";
    case edge_kind::custom: return "custom";
    case edge_kind::custom_2: return "custom_2";
    case edge_kind::custom_3: return "custom_3";
    case edge_kind::program: return "program";
    case edge_kind::pair: return "pair";
  }
  return "?";
}

/// A typed edge of an op graph.
struct edge {
  node_id from;
  node_id to;
  edge_kind kind;
  friend constexpr bool operator==(edge const&, edge const&) = default;
};

namespace detail {
class two_links;
}

/// One end of a stored edge, in four bytes: the node at the other end, the kind, and whether the two ranks differ.
/// Program and pair edges are not stored; they follow from the order of the nodes.
class graph_link {
 public:
  graph_link() = default;
  constexpr graph_link(std::uint32_t node, edge_kind kind, bool remote) noexcept
      : bits_(node | std::uint32_t(kind) << 28 | std::uint32_t(remote) << 31) {}

  /// No edge: it fills the places of a node that has fewer.
  [[nodiscard]] static constexpr graph_link none() noexcept { return {0x0FFFFFFF, edge_kind::custom_3, true}; }

  /// The same link to another node.
  [[nodiscard]] constexpr graph_link to(std::uint32_t node) const noexcept {
    graph_link result;
    result.bits_ = (bits_ & 0xF0000000) | node;
    return result;
  }

  [[nodiscard]] constexpr std::uint32_t node() const noexcept { return bits_ & 0x0FFFFFFF; }
  [[nodiscard]] constexpr edge_kind kind() const noexcept { return edge_kind((bits_ >> 28) & 7); }
  /// Whether the other node is on another rank, so that latency counts.
  [[nodiscard]] constexpr bool remote() const noexcept { return (bits_ >> 31) != 0; }

  /// Whether this is an edge, and between two ranks: `remote() && *this != none()` in one comparison.
  [[nodiscard]] constexpr bool joins_ranks() const noexcept { return std::int32_t(bits_) < -1; }

  friend constexpr bool operator==(graph_link, graph_link) noexcept = default;

 private:
  friend class detail::two_links;

  std::uint32_t bits_;
};

static_assert(sizeof(graph_link) == 4);

}  // namespace v0
}  // namespace pipesched
