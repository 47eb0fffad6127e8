#pragma once

#include "actors/job/job.hpp"
#include "actors/links/link_memory.hpp"
#include "actors/wire/messages/rows.hpp"
#include "kernels/table/row_payload.hpp"
#include "kernels/table/sparse_table.hpp"

#include <memory>
#include <optional>
#include <vector>

namespace troupe {

/// Whether rows have updates without a gradient, too, and make them up.
bool has_exact_rows(const Job& job);

/// What a part of a sparse table is made of: width, state, the initialiser of
/// its parameter, its share of the limits; which idle updates it has, but not
/// when.
TableOptions table_options(const Job& job, const Slice& slice);

/// Values of a row of the table that a slice is a part of.
size_t row_width(const Job& job, const Slice& slice);
/// Words of a row's copy: values, state, what eviction knows.
size_t row_copy_width(const Job& job, const Slice& slice);

/// Where a slice's table lies in the memory that outlives a shard's process,
/// behind all dense slices and whoever owns it.
uint64_t table_offset(const Job& job, const Slice& slice);

/// Whether all rows are there from the beginning: as wanted, or since weight
/// decay moves those that nobody had, too.
bool has_all_rows(const Job& job, const Slice& slice);
/// All ids of the part of a table that a slice is.
IdPages all_rows(const Job& job, const Slice& slice);

/// Whether values that are not packed can be of that slice, a sum down a chain
/// or part of a snapshot: float [count of the slice], none, or rows, which are
/// looked at where they are read. Of pushes: ShardContext::fits_push.
bool fits(const Job& job, uint32_t slice, const TensorView& values);

/// The ids that a pull names. Errors: nullopt where it is none of this slice,
/// or asks for more than an answer can hold.
std::optional<IdPages> wanted_rows(const Job& job, const Slice& slice,
                                   const RowPull& pull);

/// The values of rows of a version, in `memory` where there is some; empty of
/// no rows.
/// Errors: nullopt where the table has not got that version (any more).
std::optional<TensorView> read_rows(const SparseTable& table, uint64_t version,
                                    const RowList& ids, LinkMemory* memory);

/// Rows in chunks as messages carry copies of them; at least one, which may be
/// empty.
std::vector<IdPages> chunks_of(const SparseTable& table, const IdPages& pages);
/// Copies of these rows, which are there; or were in the version before.
TensorView copy_rows(const SparseTable& table, const IdPages& pages);
TensorView copy_rows_before(const SparseTable& table, const IdPages& pages);

} // namespace troupe
