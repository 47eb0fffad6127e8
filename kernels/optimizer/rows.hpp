#pragma once

#include "kernels/optimizer/optimizer.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace troupe {

/// Gradients of the rows of a table that a micro-batch, or a node of the
/// step's tree, touched.
struct SparseRows {
  std::vector<uint64_t> ids; ///< ascending, each once
  std::vector<float> values; ///< [ids, width]
  size_t width = 0;

  bool operator==(const SparseRows&) const = default;
};

/// Sums the rows of equal ids in the order they come in, which is that of the
/// samples; -1 (absent) is skipped. A sum starts with its first row, not with
/// zeros.
/// Shapes: ids [n], rows [n, width].
SparseRows sum_equal_ids(std::span<const int32_t> ids, const float* rows,
                         size_t width);

/// Takes the rows of these ids (in any order, repeated, -1: absent) out of a
/// dense gradient, in which the operator summed equal ids already.
/// Shapes: ids [n], gradient [rows of the table, width].
SparseRows take_rows(std::span<const int32_t> ids, const float* gradient,
                     size_t width);

/// Sums two nodes of a tree, `left` covering the earlier ranks; a row that only
/// one has is taken over.
SparseRows sum_rows(const SparseRows& left, const SparseRows& right);

/// Updates the rows of a table that have a gradient and touches no others, in
/// place or, where the caller copied the others, from one table to another.
/// `args` describes the whole table (in, out, state, count = rows of the table
/// times width); its gradient_sum is not used. Of equal bits with update() of
/// each row alone. Rules that also move values without a gradient (momentum,
/// Adam, decay) move those of the rows present only.
/// Errors: ids out of order or beyond the table are a bug and assert.
void update_rows(const OptimizerOptions& options, const UpdateArgs& args,
                 const SparseRows& gradient);

} // namespace troupe
