#pragma once

#include "kernels/cpu/isa.hpp"

#include <cstddef>
#include <cstdint>

namespace troupe::kernels {

/// c [rows, columns] (+)= a b, where a holds nonzero elements alone.
struct SparseBlock {
  const float* values;    ///< nonzero elements of a
  const uint32_t* places; ///< their columns
  const uint32_t* starts; ///< [rows + 1], where a row's elements begin in them
  size_t rows;
  const float* b;
  size_t b_stride;
  float* c;
  size_t c_stride;
  size_t columns; ///< of b and c, at most SparseLoops::width
  bool add;
};

/// A nonzero element of a, and what it meets.
struct SparseElement {
  float value;
  uint32_t place; ///< row of b in its block
};

constexpr size_t max_group_rows = 4;

/// Rows of a whose elements lie side by side: the first of each row, then the
/// second of each. Shorter rows end with zeros that meet a row of zeros.
struct SparseGroup {
  size_t begin;
  size_t count;                  ///< elements of each row
  uint32_t rows[max_group_rows]; ///< of c
};

/// c [rows, width] += a b [height, width]
struct SparseGroups {
  const SparseElement* elements;
  const SparseGroup* groups;
  size_t count; ///< groups
  const float* b;
  float* c;
};

/// to [lines, columns] = from, strides in elements.
struct LineCopy {
  const float* from;
  size_t from_stride;
  float* to;
  size_t to_stride;
  size_t lines;
  size_t columns; ///< at most SparseLoops::width
};

struct SparseLoops {
  size_t width; ///< columns of a full block
  size_t group; ///< rows of a group
  size_t (*nonzeros)(const float* values, size_t count);
  /// Writes the nonzero elements of a row and where they are; up to 16 elements
  /// more are overwritten. Returns how many there are.
  size_t (*compress)(const float* row, size_t count, float* values,
                     uint32_t* places);
  void (*multiply)(const SparseBlock& block);
  void (*multiply_groups)(const SparseGroups& groups);
  void (*copy)(const LineCopy& copy);
  /// A negative zero becomes a plain one: what is left of a chain that ends in
  /// nothing does not tell then whether zeros were left out.
  void (*copy_sums)(const LineCopy& copy);
};

const SparseLoops& sparse_loops(Isa isa);
const SparseLoops& sparse_loops();

} // namespace troupe::kernels
