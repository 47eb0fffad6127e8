#pragma once

#include "actors/messages/fields.hpp"
#include "actors/tensor_view.hpp"

/// Rows of sparse tables. Pushed and pulled rows travel as the values of Push,
/// LeasePush and Pulled: identities, ledgers and chains are those of all
/// slices. kernels/table/row_payload.hpp says how a tensor holds rows.
namespace troupe {

/// Asks for rows of one part of a table, answered by Pulled with the values
/// alone, in order of the ids; an empty view asks for none and is answered all
/// the same.
struct RowPull {
  Fence fence;
  RoleId worker;
  uint64_t version = 0;
  uint32_t slice = 0;
  TensorView ids;
};
/// A chunk of the rows of one part of a table at one version: values, slots of
/// state, and what eviction knows, row by row.
struct RowSnapshot {
  uint64_t job = 0;
  uint64_t version = 0;
  uint32_t slice = 0;
  uint32_t part = 0;
  uint32_t parts = 0; ///< of the slice
  uint64_t bytes = 0; ///< of memory that the part of the table takes
  TensorView rows;
  SliceHistory history{};
};
/// The coordinator has that chunk: the next one may come.
struct RowSnapshotTaken {
  uint64_t job = 0;
  uint64_t version = 0;
  uint32_t slice = 0;
  uint32_t part = 0;
};

TROUPE_INSPECT(RowPull, TROUPE_FIELD(fence), TROUPE_FIELD(worker),
               TROUPE_FIELD(version), TROUPE_FIELD(slice), TROUPE_FIELD(ids))
TROUPE_INSPECT(RowSnapshot, TROUPE_FIELD(job), TROUPE_FIELD(version),
               TROUPE_FIELD(slice), TROUPE_FIELD(part), TROUPE_FIELD(parts),
               TROUPE_FIELD(bytes), TROUPE_FIELD(rows), TROUPE_FIELD(history))
TROUPE_INSPECT(RowSnapshotTaken, TROUPE_FIELD(job), TROUPE_FIELD(version),
               TROUPE_FIELD(slice), TROUPE_FIELD(part))

} // namespace troupe
