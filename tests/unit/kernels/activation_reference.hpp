#pragma once

#include "kernels/graph/graph.hpp"

#include <cmath>

namespace troupe::test {

constexpr Activation all_activations[] = {
  Activation::none,      Activation::relu, Activation::gelu,
  Activation::silu,      Activation::tanh, Activation::sigmoid,
  Activation::gelu_tanh,
};

/// An activation in float64.
inline double activated(Activation kind, double z) {
  switch (kind) {
    case Activation::none:
      return z;
    case Activation::relu:
      return z < 0 ? 0 : z;
    case Activation::gelu:
      return z * 0.5 * std::erfc(-z / std::sqrt(2.0));
    case Activation::silu:
      return z / (1 + std::exp(-z));
    case Activation::tanh:
      return std::tanh(z);
    case Activation::sigmoid:
      return 1 / (1 + std::exp(-z));
    case Activation::gelu_tanh:
      return z / 2
             * (1
                + std::tanh(std::sqrt(2 / std::acos(-1.0))
                            * (z + 0.044715 * z * z * z)));
  }
  return z;
}

} // namespace troupe::test
