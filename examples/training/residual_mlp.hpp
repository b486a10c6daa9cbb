// SPDX-License-Identifier: MIT
#pragma once

/// \file
/// A small network whose stages are residual blocks, with the three passes written by hand, and its plain training.

#include <cmath>
#include <cstdint>
#include <random>
#include <vector>

#include <Eigen/Dense>

namespace training {

using matrix = Eigen::MatrixXd;

/// The sizes of the network and of a microbatch.
struct network_shape {
  int stages;
  int width = 16;   ///< of what flows between stages
  int hidden = 32;  ///< inside a block
  int samples = 8;  ///< columns of a microbatch
};

/// The parameters of one stage, y = x + W2 tanh(W1 x + b1) + b2, or their gradients.
struct block {
  matrix w1, b1, w2, b2;

  static block zero(network_shape const& shape) {
    return {matrix::Zero(shape.hidden, shape.width), matrix::Zero(shape.hidden, 1),
            matrix::Zero(shape.width, shape.hidden), matrix::Zero(shape.width, 1)};
  }
  /// The same for everyone who asks for the stage.
  static block initial(network_shape const& shape, int stage) {
    std::mt19937_64 generator(std::uint64_t(stage) + 1);
    std::normal_distribution<double> normal;
    auto const random = [&](matrix& m, double scale) {
      for (auto& value : m.reshaped()) value = scale * normal(generator);
    };
    auto result = zero(shape);
    random(result.w1, 1 / std::sqrt(shape.width));
    random(result.w2, 0.5 / std::sqrt(shape.hidden));
    return result;
  }

  /// this += scale * other
  void add(block const& other, double scale = 1) {
    w1 += scale * other.w1;
    b1 += scale * other.b1;
    w2 += scale * other.w2;
    b2 += scale * other.b2;
  }
  [[nodiscard]] double squared_norm() const {
    return w1.squaredNorm() + b1.squaredNorm() + w2.squaredNorm() + b2.squaredNorm();
  }
  /// All values in one row, to be sent; and back.
  [[nodiscard]] std::vector<double> flat() const {
    std::vector<double> values;
    for (auto const* m : {&w1, &b1, &w2, &b2}) values.insert(values.end(), m->data(), m->data() + m->size());
    return values;
  }
  void assign(std::vector<double> const& values) {
    auto const* next = values.data();
    for (auto* m : {&w1, &b1, &w2, &b2}) {
      std::copy(next, next + m->size(), m->data());
      next += m->size();
    }
  }
};

/// What a stage keeps of one microbatch, from its forward to its W.
struct stash {
  matrix input, activated;                  // from the forward
  matrix output_gradient, hidden_gradient;  // from the backward for the input
};

inline matrix forward(block const& p, matrix input, stash& kept) {
  kept.input = std::move(input);
  kept.activated = ((p.w1 * kept.input).colwise() + p.b1.col(0)).array().tanh();
  return kept.input + ((p.w2 * kept.activated).colwise() + p.b2.col(0));
}

/// The gradient of the stage's input; keeps what the weights' gradients need.
inline matrix backward_input(block const& p, matrix output_gradient, stash& kept) {
  kept.output_gradient = std::move(output_gradient);
  kept.hidden_gradient = (p.w2.transpose() * kept.output_gradient).array() * (1 - kept.activated.array().square());
  return kept.output_gradient + p.w1.transpose() * kept.hidden_gradient;
}

/// Adds the microbatch's share to the weights' gradients, and lets go of its stash.
inline void backward_weight(stash& kept, block& gradient) {
  gradient.w1.noalias() += kept.hidden_gradient * kept.input.transpose();
  gradient.b1 += kept.hidden_gradient.rowwise().sum();
  gradient.w2.noalias() += kept.output_gradient * kept.activated.transpose();
  gradient.b2 += kept.output_gradient.rowwise().sum();
  kept = {};
}

/// One microbatch of the task: to turn `input` into `target`.
struct sample {
  matrix input, target;
};

inline sample sample_of(network_shape const& shape, std::int64_t microbatch) {
  std::mt19937_64 generator(std::uint64_t(microbatch) + 1000);
  std::normal_distribution<double> normal;
  matrix input(shape.width, shape.samples);
  for (auto& value : input.reshaped()) value = normal(generator);
  matrix target = input.colwise().reverse().array().sin() + 0.5 * input.array();
  return {std::move(input), std::move(target)};
}

/// Half the squared distance, the mean over all samples of the step.
inline double loss_of(matrix const& output, matrix const& target, std::int64_t microbatches) {
  return 0.5 * (output - target).squaredNorm() / double(output.cols() * microbatches);
}
inline matrix loss_gradient(matrix const& output, matrix const& target, std::int64_t microbatches) {
  return (output - target) / double(output.cols() * microbatches);
}

/// The loss of a step and the gradients of every stage.
struct step_result {
  double loss = 0;
  std::vector<block> gradients;
};

/// The step as one would write it without a pipeline.
inline step_result plain_step(network_shape const& shape, std::vector<block> const& parameters,
                              std::int64_t microbatches) {
  step_result result{0, std::vector<block>(parameters.size(), block::zero(shape))};
  for (std::int64_t b = 0; b < microbatches; ++b) {
    auto const [input, target] = sample_of(shape, b);
    std::vector<stash> kept(parameters.size());
    matrix flowing = input;
    for (std::size_t s = 0; s < parameters.size(); ++s) flowing = forward(parameters[s], std::move(flowing), kept[s]);
    result.loss += loss_of(flowing, target, microbatches);
    flowing = loss_gradient(flowing, target, microbatches);
    for (std::size_t s = parameters.size(); s-- > 0;) {
      flowing = backward_input(parameters[s], std::move(flowing), kept[s]);
      backward_weight(kept[s], result.gradients[s]);
    }
  }
  return result;
}

/// The largest relative difference of two steps: of the loss, and of each stage's gradients.
inline double difference(step_result const& a, step_result const& b) {
  double largest = std::abs(a.loss - b.loss) / std::abs(b.loss);
  for (std::size_t s = 0; s < a.gradients.size(); ++s) {
    auto apart = a.gradients[s];
    apart.add(b.gradients[s], -1);
    largest = std::max(largest, std::sqrt(apart.squared_norm() / b.gradients[s].squared_norm()));
  }
  return largest;
}

}  // namespace training
