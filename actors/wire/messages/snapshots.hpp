#pragma once

#include "actors/wire/messages/fields.hpp"
#include "actors/wire/tensor_view.hpp"

#include <vector>

/// Whole versions on their way from the owners of slices to the coordinator.
namespace troupe {

/// Owners send a snapshot of `version` when they have it; async: of whatever
/// they hold, marked so.
struct SnapshotRequest {
  Fence fence;
  uint64_t version = 0;
};
/// Parameters and optimizer state of one slice at one version.
struct SnapshotSlice {
  uint64_t job = 0;
  uint64_t version = 0;
  uint32_t slice = 0;
  TensorView values;
  std::vector<TensorView> state;
  SliceHistory history{};
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
/// The coordinator has that slice, or that chunk of its rows: more may come.
struct SnapshotTaken {
  uint64_t job = 0;
  uint64_t version = 0;
  uint32_t slice = 0;
  uint32_t part = 0; ///< of rows
};

TROUPE_INSPECT(SnapshotRequest, TROUPE_FIELD(fence), TROUPE_FIELD(version))
TROUPE_INSPECT(SnapshotSlice, TROUPE_FIELD(job), TROUPE_FIELD(version),
               TROUPE_FIELD(slice), TROUPE_FIELD(values), TROUPE_FIELD(state),
               TROUPE_FIELD(history))
TROUPE_INSPECT(RowSnapshot, TROUPE_FIELD(job), TROUPE_FIELD(version),
               TROUPE_FIELD(slice), TROUPE_FIELD(part), TROUPE_FIELD(parts),
               TROUPE_FIELD(bytes), TROUPE_FIELD(rows), TROUPE_FIELD(history))
TROUPE_INSPECT(SnapshotTaken, TROUPE_FIELD(job), TROUPE_FIELD(version),
               TROUPE_FIELD(slice), TROUPE_FIELD(part))

} // namespace troupe
