// SPDX-License-Identifier: MIT
#pragma once

/// \file
/// A cluster as a planner sees it: how many GPUs, what they compute and hold, and what lies between them.

#include <cstdint>
#include <string>
#include <string_view>

#include <pipesched/analysis/hardware.hpp>
#include <pipesched/core/error.hpp>

namespace pipesched {
inline namespace v0 {

/// GPUs of one kind in nodes of one size. Rated figures, and what of them is reached.
struct cluster_spec {
  std::string gpu = "H100";
  std::int64_t gpus = 8;
  std::int64_t gpus_per_node = 8;
  double bf16_rate = h100.bf16_rate;                 ///< floating-point operations per second
  double fp8_rate = h100.fp8_rate;                   ///< 0: the GPU has no FP8 products
  double memory = h100.memory_bytes;                 ///< bytes
  double memory_bandwidth = h100.memory_bandwidth;   ///< bytes per second
  double nvlink = nvlink_4.bytes_per_second;         ///< per GPU and direction, within a node
  double network = infiniband_ndr.bytes_per_second;  ///< per GPU and direction, between nodes
  std::int64_t multiprocessors = h100.multiprocessors;
  std::int64_t communication_multiprocessors = 20;  ///< serve the all-to-alls beside overlapped pairs

  /// \name Shares of a rate that are reached
  /// \{
  /// 16-bit products. The best that is reported of single large ones on H100 is 0.79; those of a layer are smaller.
  double bf16_share = 0.65;
  /// FP8 products with their quantisation: what DeepSeek-V3's lone forward leaves for them (arXiv 2505.09343, table 4).
  double fp8_share = 0.42;
  /// Attention's core, of the 16-bit rate: FlashAttention-2 on H100 (arXiv 2407.08608, abstract, which gives 0.75 as
  /// the best of FlashAttention-3).
  double attention_share = 0.35;
  double link_share = 0.8;  ///< of the links
  /// \}
  double memory_share = 0.94;       ///< of the memory that a plan may fill
  double transfer_latency = 10e-6;  ///< seconds, added to each transfer between pipeline ranks

  /// `gpus` of a known kind.
  [[nodiscard]] static cluster_spec of(gpu_spec const& kind, std::int64_t gpus, std::int64_t gpus_per_node = 8,
                                       link_spec const& network = infiniband_ndr) {
    cluster_spec c;
    c.gpus = gpus;
    c.gpus_per_node = gpus_per_node;
    c.network = network.bytes_per_second;
    c.use(kind);
    return c;
  }
  /// Takes over the figures of a kind.
  void use(gpu_spec const& kind) {
    gpu = kind.name;
    bf16_rate = kind.bf16_rate;
    fp8_rate = kind.fp8_rate;
    memory = kind.memory_bytes;
    memory_bandwidth = kind.memory_bandwidth;
    nvlink = kind.nvlink.bytes_per_second;
    multiprocessors = kind.multiprocessors;
  }

  /// Bytes per second between two GPUs of `span` neighbouring ones.
  [[nodiscard]] double bandwidth_within(std::int64_t span) const noexcept {
    return (span <= gpus_per_node ? nvlink : network) * link_share;
  }
  /// Bytes of a GPU that a plan may fill.
  [[nodiscard]] std::int64_t usable_memory() const noexcept { return static_cast<std::int64_t>(memory * memory_share); }

  [[nodiscard]] constexpr check_result check() const {
    auto const share = [](std::string_view name, double value) {
      return first_violation({above(name, value, 0.0), at_most(name, value, 1.0)});
    };
    // The least of each is far below any GPU, and above what gigabytes or teraflops come to.
    auto const rate = [](std::string_view name, double value, std::string_view unit) {
      return first_violation({at_least(name, value, 1e6, unit), at_most(name, value, 1e21, unit)});
    };
    constexpr std::string_view bytes = "bytes per second";
    constexpr std::string_view operations = "operations per second";
    return first_violation({at_least("gpus", gpus, 1),
                            at_most("gpus", gpus, 1 << 24),
                            at_least("gpus_per_node", gpus_per_node, 1),
                            at_most("gpus_per_node", gpus_per_node, 1 << 16),
                            rate("bf16_rate", bf16_rate, operations),
                            fp8_rate == 0 ? check_result{} : rate("fp8_rate", fp8_rate, operations),
                            at_least("memory", memory, 1e6, "bytes"),
                            at_most("memory", memory, 1e13, "bytes"),
                            rate("memory_bandwidth", memory_bandwidth, bytes),
                            rate("nvlink", nvlink, bytes),
                            rate("network", network, bytes),
                            at_least("multiprocessors", multiprocessors, 1),
                            at_most("multiprocessors", multiprocessors, 65536),
                            at_least("communication_multiprocessors", communication_multiprocessors, 0),
                            at_most("communication_multiprocessors", communication_multiprocessors, multiprocessors - 1,
                                    "multiprocessors - 1"),
                            share("bf16_share", bf16_share),
                            share("fp8_share", fp8_share),
                            share("attention_share", attention_share),
                            share("link_share", link_share),
                            share("memory_share", memory_share),
                            at_least("transfer_latency", transfer_latency, 0.0),
                            at_most("transfer_latency", transfer_latency, 1.0)});
  }
};

}  // namespace v0
}  // namespace pipesched
