// SPDX-License-Identifier: MIT
#pragma once

/// \file
/// A small mixture-of-experts network, its passes written by hand event by event, and its plain training.

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <random>
#include <utility>
#include <vector>

#include <Eigen/Dense>

namespace moe {

using matrix = Eigen::MatrixXd;

/// The sizes of the network. A token is a column of `width` numbers.
struct network_shape {
  int stages;
  int layers = 2;   ///< of each stage
  int experts = 4;  ///< of each layer
  int width = 16;
  int tokens = 12;  ///< of one microbatch on one expert-parallel rank
  int groups = 2;   ///< expert-parallel ranks: each has tokens of its own and a share of the experts

  [[nodiscard]] int experts_per_rank() const { return experts / groups; }
};

/// The parameters of one layer, or their gradients: y = a + expert(a), a = x + tanh(A x), expert(a) = tanh(E a).
struct layer {
  matrix attention;
  std::vector<matrix> experts;

  static layer zero(network_shape const& shape) {
    auto const square = matrix::Zero(shape.width, shape.width);
    return {square, std::vector<matrix>(std::size_t(shape.experts), square)};
  }
  static layer initial(network_shape const& shape, int index) {
    std::mt19937_64 generator(std::uint64_t(index) + 1);
    std::normal_distribution<double> normal(0, 1 / std::sqrt(shape.width));
    auto result = zero(shape);
    for (auto& value : result.attention.reshaped()) value = normal(generator);
    for (auto& expert : result.experts)
      for (auto& value : expert.reshaped()) value = normal(generator);
    return result;
  }
  [[nodiscard]] std::vector<double> flat() const {
    std::vector<double> values(attention.data(), attention.data() + attention.size());
    for (auto const& e : experts) values.insert(values.end(), e.data(), e.data() + e.size());
    return values;
  }
};

/// The expert of a token: fixed, uneven, and known to every rank, so that no counts have to be exchanged.
inline int expert_of(network_shape const& shape, std::int64_t microbatch, int layer_index, int group, int token) {
  auto mixed = std::uint64_t(microbatch) * 0x9e3779b97f4a7c15U + std::uint64_t(layer_index) * 0xbf58476d1ce4e5b9U +
               std::uint64_t(group) * 0x94d049bb133111ebU + std::uint64_t(token) * 0xd6e8feb86659fd93U;
  mixed = (mixed ^ (mixed >> 32)) * 0xd6e8feb86659fd93U;
  return int((mixed >> 33) % std::uint64_t(shape.experts));
}

/// Tokens of one expert-parallel rank, and what they should become.
struct sample {
  matrix input, target;
};
inline sample sample_of(network_shape const& shape, std::int64_t microbatch, int group) {
  std::mt19937_64 generator(std::uint64_t(microbatch * 64 + group) + 1000);
  std::normal_distribution<double> normal;
  matrix input(shape.width, shape.tokens);
  for (auto& value : input.reshaped()) value = normal(generator);
  matrix target = input.colwise().reverse().array().sin();
  return {std::move(input), std::move(target)};
}

inline double samples_of(network_shape const& shape, std::int64_t microbatches) {
  return double(shape.tokens) * double(shape.groups) * double(microbatches);
}
inline double loss_of(matrix const& output, matrix const& target, double samples) {
  return 0.5 * (output - target).squaredNorm() / samples;
}

struct step_result {
  double loss = 0;
  std::vector<layer> gradients;  // of all layers of all stages
};

/// The step as one would write it without pipeline and without expert parallelism: token by token.
inline step_result plain_step(network_shape const& shape, std::int64_t microbatches) {
  int const layers = shape.stages * shape.layers;
  std::vector<layer> parameters;
  for (int l = 0; l < layers; ++l) parameters.push_back(layer::initial(shape, l));
  step_result result{0, std::vector<layer>(std::size_t(layers), layer::zero(shape))};
  auto const samples = samples_of(shape, microbatches);
  struct kept {
    matrix x, t, a, y;
  };
  for (std::int64_t b = 0; b < microbatches; ++b)
    for (int group = 0; group < shape.groups; ++group) {
      auto const [input, target] = sample_of(shape, b, group);
      std::vector<kept> stash;
      matrix flowing = input;
      for (int l = 0; l < layers; ++l) {
        auto const& p = parameters[std::size_t(l)];
        kept k{flowing, (p.attention * flowing).array().tanh(), {}, matrix(shape.width, shape.tokens)};
        k.a = k.x + k.t;
        for (int token = 0; token < shape.tokens; ++token)
          k.y.col(token) =
              (p.experts[std::size_t(expert_of(shape, b, l, group, token))] * k.a.col(token)).array().tanh();
        flowing = k.a + k.y;
        stash.push_back(std::move(k));
      }
      result.loss += loss_of(flowing, target, samples);
      flowing = (flowing - target) / samples;
      for (int l = layers; l-- > 0;) {
        auto const& p = parameters[std::size_t(l)];
        auto& g = result.gradients[std::size_t(l)];
        auto const& k = stash[std::size_t(l)];
        matrix da = flowing;
        for (int token = 0; token < shape.tokens; ++token) {
          auto const expert = std::size_t(expert_of(shape, b, l, group, token));
          Eigen::VectorXd const dp = flowing.col(token).array() * (1 - k.y.col(token).array().square());
          da.col(token) += p.experts[expert].transpose() * dp;
          g.experts[expert] += dp * k.a.col(token).transpose();
        }
        matrix const dq = da.array() * (1 - k.t.array().square());
        g.attention += dq * k.x.transpose();
        flowing = da + p.attention.transpose() * dq;
      }
    }
  return result;
}

}  // namespace moe
