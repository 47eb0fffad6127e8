#pragma once

#include "kernels/graph/graph.hpp"

#include <cstddef>
#include <cstdint>

namespace troupe::test {

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

} // namespace troupe::test
