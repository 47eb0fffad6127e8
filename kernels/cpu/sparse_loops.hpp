#pragma once

#include "kernels/cpu/isa.hpp"

#include <cstddef>
#include <cstdint>

namespace troupe::kernels {

/// c [rows, columns] (+)= a b for some columns of a, which holds nonzero
/// elements alone.
struct SparseBlock {
  const float* values;    ///< nonzero elements of a
  const uint32_t* places; ///< their columns
  const uint32_t* begin;  ///< [rows], where a row's elements begin in them
  const uint32_t* end;    ///< [rows]
  size_t rows;
  const float* b; ///< its first row belongs to column `first` of a
  size_t b_stride;
  size_t first;
  float* c;
  size_t c_stride;
  size_t columns; ///< of b and c, at most SparseLoops::width
  bool add;
};

struct SparseLoops {
  size_t width; ///< columns of a full block
  size_t (*nonzeros)(const float* values, size_t count);
  /// Writes the nonzero elements of a row and where they are; up to 16 elements
  /// more are overwritten. Returns how many there are.
  size_t (*compress)(const float* row, size_t count, float* values,
                     uint32_t* places);
  void (*multiply)(const SparseBlock& block);
};

const SparseLoops& sparse_loops(Isa isa);
const SparseLoops& sparse_loops();

} // namespace troupe::kernels
