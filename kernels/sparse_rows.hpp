#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace troupe::kernels {

/// Some rows of a table: what a step's gradient of an embedding is, without
/// the zeros.
struct SparseRows {
  std::vector<int32_t> ids; ///< each once, ascending
  std::vector<float> rows;  ///< [ids, width]
};

/// Sums the rows of equal ids, in their order: the sum is that which an
/// embedding's backward pass leaves in the row of the table.
/// Shapes: ids [count], -1 for a row that counts nowhere; rows [count, width].
SparseRows sum_rows(const int32_t* ids, size_t count, const float* rows,
                    size_t width);

} // namespace troupe::kernels
