#pragma once

#include "actors/wire/messages/fields.hpp"
#include "actors/wire/tensor_view.hpp"

/// Samples that readers read and decode for workers.
namespace troupe {

/// Asks a reader for samples of a data epoch, which may change what is drawn of
/// them; answered by RowsServed. To ask again does no harm. The fence names the
/// job alone: readers are in no epoch.
/// Shapes: samples, their numbers (kernels/data/row_supply.hpp).
struct RowsWanted {
  Fence fence;
  RoleId worker;
  uint64_t request = 0; ///< numbered by the worker
  uint64_t data_epoch = 0;
  TensorView samples;
};

/// A part of the samples' rows in one piece (kernels/data/row_supply.hpp), from
/// word `begin` on; the parts of an answer come in order.
struct RowsServed {
  Fence fence;
  uint64_t request = 0;
  uint64_t begin = 0;
  TensorView values;
};

TROUPE_INSPECT(RowsWanted, TROUPE_FIELD(fence), TROUPE_FIELD(worker),
               TROUPE_FIELD(request), TROUPE_FIELD(data_epoch),
               TROUPE_FIELD(samples))
TROUPE_INSPECT(RowsServed, TROUPE_FIELD(fence), TROUPE_FIELD(request),
               TROUPE_FIELD(begin), TROUPE_FIELD(values))

} // namespace troupe
