#pragma once

#include "kernels/optimizer/optimizer.hpp"

#include <cmath>
#include <cstdint>
#include <vector>

namespace troupe::test {

/// The rules but LAMB's, in float64 and one element at a time; g is the mean
/// gradient.
inline void reference_element(const OptimizerOptions& o, double lr,
                              uint64_t step, double g, double& p, double& s0,
                              double& s1) {
  double decay = o.weight_decay;
  if (o.kind != OptimizerKind::adamw)
    g += decay * p;
  auto steps = static_cast<double>(step);
  switch (o.kind) {
    case OptimizerKind::sgd:
      p -= lr * g;
      return;
    case OptimizerKind::momentum:
      s0 = o.momentum * s0 + g;
      p -= lr * s0;
      return;
    case OptimizerKind::nesterov:
      s0 = o.momentum * s0 + g;
      p -= lr * (g + o.momentum * s0);
      return;
    case OptimizerKind::adamw:
      p *= 1 - lr * decay;
      [[fallthrough]];
    case OptimizerKind::adam: {
      s0 = o.beta1 * s0 + (1.0 - o.beta1) * g;
      s1 = o.beta2 * s1 + (1.0 - o.beta2) * g * g;
      auto m = s0 / (1 - std::pow(double{o.beta1}, steps));
      auto v = s1 / (1 - std::pow(double{o.beta2}, steps));
      p -= lr * m / (std::sqrt(v) + o.epsilon);
      return;
    }
    case OptimizerKind::adagrad:
      s0 += g * g;
      p -= lr * g / (std::sqrt(s0) + o.epsilon);
      return;
    case OptimizerKind::rmsprop:
      s0 = o.beta2 * s0 + (1.0 - o.beta2) * g * g;
      p -= lr * g / (std::sqrt(s0) + o.epsilon);
      return;
    case OptimizerKind::ftrl: {
      // As published: s0 holds z times the learning rate, s1 the root of n.
      auto z = s0 / lr;
      auto n = s1 * s1;
      auto sigma = (std::sqrt(n + g * g) - std::sqrt(n)) / lr;
      z += g - sigma * p;
      n += g * g;
      auto scale = (o.ftrl_beta + std::sqrt(n)) / lr + o.l2;
      p = std::abs(z) <= o.l1 ? 0 : -(z - std::copysign(o.l1, z)) / scale;
      s0 = z * lr;
      s1 = std::sqrt(n);
      return;
    }
    case OptimizerKind::lamb:
      return;
  }
}

/// One step of a variable. Shapes: gradient (of the mean loss) and values
/// [n], state [2, n].
inline void reference_update(const OptimizerOptions& o, double lr,
                             uint64_t step, const std::vector<float>& gradient,
                             std::vector<double>& values,
                             std::vector<double>& state) {
  const auto n = values.size();
  if (o.kind != OptimizerKind::lamb) {
    for (size_t i = 0; i < n; ++i)
      reference_element(o, lr, step, gradient[i], values[i], state[i],
                        state[n + i]);
    return;
  }
  std::vector<double> direction(n);
  double value_squares = 0;
  double direction_squares = 0;
  auto steps = static_cast<double>(step);
  for (size_t i = 0; i < n; ++i) {
    double g = gradient[i];
    auto& m = state[i];
    auto& v = state[n + i];
    m = o.beta1 * m + (1.0 - o.beta1) * g;
    v = o.beta2 * v + (1.0 - o.beta2) * g * g;
    auto first = m / (1 - std::pow(double{o.beta1}, steps));
    auto second = v / (1 - std::pow(double{o.beta2}, steps));
    direction[i] = first / (std::sqrt(second) + o.epsilon)
                   + o.weight_decay * values[i];
    value_squares += values[i] * values[i];
    direction_squares += direction[i] * direction[i];
  }
  const auto trust = value_squares == 0 || direction_squares == 0
                       ? 1
                       : std::sqrt(value_squares / direction_squares);
  for (size_t i = 0; i < n; ++i)
    values[i] -= lr * trust * direction[i];
}

} // namespace troupe::test
