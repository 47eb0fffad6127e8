#pragma once

#include <cstddef>

namespace troupe::kernels {

/// to [columns, rows], to_stride apart, of from [rows, columns].
void transposed_copy(const float* from, size_t from_stride, size_t rows,
                     size_t columns, float* to, size_t to_stride);

} // namespace troupe::kernels
