#pragma once

#include "actors/wire/messages/fields.hpp"
#include "actors/wire/tensor_view.hpp"

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

TROUPE_INSPECT(RowPull, TROUPE_FIELD(fence), TROUPE_FIELD(worker),
               TROUPE_FIELD(version), TROUPE_FIELD(slice), TROUPE_FIELD(ids))

} // namespace troupe
