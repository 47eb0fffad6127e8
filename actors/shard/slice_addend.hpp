#pragma once

#include "actors/job/job.hpp"
#include "actors/wire/tensor_view.hpp"
#include "kernels/table/row_list.hpp"

#include <memory>

namespace troupe {

/// What a slice's nodes hold: a run of values or, of a part of a sparse table,
/// rows of these ids.
/// Shapes: float [slice.count] of a run, [ids, width] of rows.
struct Addend {
  TensorView values; ///< of rows: the last of them, behind a payload's head
  std::shared_ptr<const RowList> ids = {}; ///< null: a run, or the identity

  bool empty() const { return values.size() == 0; }
};

/// What was pushed, or forwarded, as an addend. `known`: the ids, where they
/// were sent before.
/// Errors: rows that are none are a bug of a member and assert.
Addend addend_of(const Job& job, const Slice& slice, TensorView values,
                 std::shared_ptr<const RowList> known = {});

/// The rows' values. Shapes: [ids, width].
const float* row_values(const Job& job, const Slice& slice, const Addend& rows);

/// The sum of two nodes' rows.
Addend sum_rows(const Job& job, const Slice& slice, const Addend& left,
                const Addend& right);

/// Rows as a payload that has its ids.
TensorView whole_payload(const Job& job, const Slice& slice,
                         const Addend& rows);

} // namespace troupe
