#pragma once

#include "kernels/graph/graph.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

namespace troupe::test {

/// Attention of one head of one sample, in float64, as it is defined. x: [t, 3
/// d], y: [t, d], both from the head's first element on.
inline void attend(const double* x, double* y, uint64_t length, uint64_t head,
                   uint64_t width, bool causal) {
  std::vector<double> weights(length);
  for (size_t i = 0; i < length; ++i) {
    const auto keys = causal ? i + 1 : length;
    double largest = -INFINITY;
    for (size_t j = 0; j < keys; ++j) {
      double dot = 0;
      for (size_t c = 0; c < head; ++c)
        dot += x[i * 3 * width + c] * x[j * 3 * width + width + c];
      weights[j] = dot / std::sqrt(static_cast<double>(head));
      largest = std::max(largest, weights[j]);
    }
    double sum = 0;
    for (size_t j = 0; j < keys; ++j)
      sum += weights[j] = std::exp(weights[j] - largest);
    for (size_t c = 0; c < head; ++c) {
      double value = 0;
      for (size_t j = 0; j < keys; ++j)
        value += weights[j] / sum * x[j * 3 * width + 2 * width + c];
      y[i * width + c] = value;
    }
  }
}

/// One bag: sum or mean over the present ids, `weights` null for ones. Adds to
/// y [width].
template <class Id, class Table>
void add_bag(const Id* ids, const double* weights, uint64_t n, uint64_t width,
             BagMode mode, const Table& table, double* y) {
  double present = 0;
  for (size_t i = 0; i < n; ++i)
    present += ids[i] >= 0;
  const auto share = mode == BagMode::mean && present > 0 ? 1 / present : 1.0;
  for (size_t i = 0; i < n; ++i)
    for (size_t c = 0; ids[i] >= 0 && c < width; ++c)
      y[c] += share * (weights == nullptr ? 1.0 : weights[i])
              * table(static_cast<size_t>(ids[i]) * width + c);
}

/// Dot products of the pairs i > j of x [n, width], to y.
inline void interact(const double* x, uint64_t n, uint64_t width, double* y) {
  for (size_t i = 0; i < n; ++i)
    for (size_t j = 0; j < i; ++j, ++y)
      for (size_t c = 0; c < width; ++c)
        *y += x[i * width + c] * x[j * width + c];
}

/// Half of the sum over width of (sum_n x)^2 - sum_n x^2.
inline double factorize(const double* x, uint64_t n, uint64_t width) {
  double result = 0;
  for (size_t c = 0; c < width; ++c) {
    double sum = 0;
    double squares = 0;
    for (size_t i = 0; i < n; ++i) {
      sum += x[i * width + c];
      squares += x[i * width + c] * x[i * width + c];
    }
    result += (sum * sum - squares) / 2;
  }
  return result;
}

} // namespace troupe::test
