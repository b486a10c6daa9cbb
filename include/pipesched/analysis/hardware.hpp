// SPDX-License-Identifier: MIT
#pragma once

/// \file
/// Published figures of GPUs and links, in bytes per second and floating-point operations per second.

#include <array>
#include <string_view>

#include <pipesched/core/error.hpp>

namespace pipesched {
inline namespace v0 {

/// A link's bandwidth per GPU and direction.
struct link_spec {
  std::string_view name;
  double bytes_per_second;
  std::string_view source;
};

/// \name Links
/// \{
inline constexpr link_spec nvlink_4{"NVLink 4", 450e9, "NVIDIA H100 datasheet: 900 GB/s, both directions together"};
/// What NVLink 4 is cut to for H800; DeepSeek measured about 160 of these 200 GB/s (arXiv 2505.09343, section 4.2).
inline constexpr link_spec nvlink_4_h800{"NVLink 4 (H800)", 200e9,
                                         "arXiv 2505.09343, section 4.1: 400 GB/s, both directions together"};
inline constexpr link_spec nvlink_5{"NVLink 5", 900e9,
                                    "NVIDIA Blackwell datasheet: 1.8 TB/s, both directions together"};
inline constexpr link_spec infiniband_ndr{"InfiniBand NDR", 50e9, "NVIDIA Quantum-2: 400 Gbit/s per port"};
inline constexpr link_spec infiniband_xdr{"InfiniBand XDR", 100e9, "NVIDIA Quantum-X800: 800 Gbit/s per port"};
/// \}

/// A GPU, as its maker rates it: dense rates, without sparsity.
struct gpu_spec {
  std::string_view name;
  int multiprocessors;
  double bf16_rate;         ///< floating-point operations per second
  double fp8_rate;          ///< floating-point operations per second
  double memory_bytes;      ///< HBM
  double memory_bandwidth;  ///< HBM, bytes per second
  link_spec nvlink;
  std::string_view source;
};

/// \name GPUs, SXM modules
/// \{
inline constexpr gpu_spec h100{"H100", 132,     989.4e12, 1978.9e12,
                               80e9,   3.35e12, nvlink_4, "NVIDIA H100 Tensor Core GPU architecture whitepaper"};
inline constexpr gpu_spec h800{"H800", 132,     989.4e12,      1978.9e12,
                               80e9,   3.35e12, nvlink_4_h800, "as H100 but for NVLink: arXiv 2505.09343, section 4.1"};
inline constexpr gpu_spec h200{"H200", 132, 989.4e12, 1978.9e12, 141e9, 4.8e12, nvlink_4, "NVIDIA H200 datasheet"};
inline constexpr gpu_spec b200{"B200", 148, 2250e12, 4500e12, 180e9, 8e12, nvlink_5, "NVIDIA DGX B200 datasheet"};
/// \}

/// All GPUs of the table.
inline constexpr std::array<gpu_spec, 4> known_gpus{h100, h800, h200, b200};
/// All links of the table.
inline constexpr std::array<link_spec, 5> known_links{nvlink_4, nvlink_4_h800, nvlink_5, infiniband_ndr,
                                                      infiniband_xdr};

/// The GPU of that name in the table, or null.
[[nodiscard]] constexpr gpu_spec const* find_gpu(std::string_view name) noexcept {
  for (auto const& gpu : known_gpus)
    if (gpu.name == name) return &gpu;
  return nullptr;
}

/// What one GPU of a cluster reaches.
struct moe_machine {
  double nvlink_bandwidth;   ///< bytes per second and direction, within a node
  double network_bandwidth;  ///< bytes per second and direction, between nodes
  double gemm_rate;          ///< floating-point operations per second that matrix products reach

  /// The rated figures times what of them is reached: `gemm_share` of the BF16 rate, `link_share` of the links.
  [[nodiscard]] static constexpr moe_machine of(gpu_spec const& gpu, link_spec const& network, double gemm_share = 1,
                                                double link_share = 1) {
    moe_machine const machine{gpu.nvlink.bytes_per_second * link_share, network.bytes_per_second * link_share,
                              gpu.bf16_rate * gemm_share};
    require(machine.check());
    return machine;
  }
  [[nodiscard]] constexpr check_result check() const {
    return first_violation({above("nvlink_bandwidth", nvlink_bandwidth, 0.0),
                            above("network_bandwidth", network_bandwidth, 0.0), above("gemm_rate", gemm_rate, 0.0)});
  }
};

}  // namespace v0
}  // namespace pipesched
