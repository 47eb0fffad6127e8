#pragma once

#include "kernels/optimizer/optimizer.hpp"
#include "kernels/table/idle_rows.hpp"
#include "kernels/table/row_blocks.hpp"
#include "kernels/table/row_list.hpp"
#include "kernels/table/table_options.hpp"

#include <cstdint>
#include <span>
#include <vector>

namespace troupe {

/// A part of a sparse table: rows of float32 values and optimizer state by
/// 64-bit ids. A row is there from the first update that touches it; before
/// that, reading computes its initial value and stores nothing (PROTOCOL 4).
/// The version before the newest is kept, row by row as the last update found
/// it. In memory that outlives the process an update is whole or undone, at
/// whatever moment the process is killed.
/// With idle updates a row says how many it has had, and makes up the others
/// when it is touched, read or copied: nobody sees that it lacked any. An
/// update brings some of the other rows along (RowSweep).
/// Owner: one thread writes; others may read between updates, other lists.
class SparseTable {
public:
  /// Takes over what lies in `descriptor` at `offset` (RowMemory; -1: memory
  /// of the process's own), where that is a table of this shape of version
  /// `version`, or had its update from `version` on begun.
  SparseTable(TableOptions options, int descriptor = -1, uint64_t offset = 0,
              uint64_t version = 0);

  size_t width() const { return options_.width; }
  uint64_t version() const { return version_; }

  /// Copies the values of rows out; or those of the version before.
  /// Shapes: out [ids, width].
  void read(const RowList& ids, float* out) const;
  void read_before(const RowList& ids, float* out) const;
  /// Values, and state [slots, ids, width], as the next update will find them.
  void read_state(const RowList& ids, float* values, float* state) const;

  /// Makes the next version: evicts what is due, creates rows that are not
  /// there, updates the rows of these ids. `moment` is an update's arguments
  /// without pointers and count. Equal bits with update() of each row alone.
  /// Shapes: gradient_sum [ids, width].
  void update(const OptimizerOptions& rule, const UpdateArgs& moment,
              const RowList& ids, const float* gradient_sum);

  /// Makes rows that are not there, as the first update would; the version
  /// stays, and there is none before until the next update.
  void create(const RowList& ids);

  uint64_t rows() const { return blocks_.rows(); }
  uint64_t evicted() const { return evicted_; } ///< since the start
  uint64_t bytes() const; ///< slabs, index, the rows of the version before

  void clear();                                         ///< no rows, version 0
  IdPages present() const { return blocks_.present(); } ///< what is there
  IdPages present(const RowList& ids) const;            ///< of these

  // Copies of whole rows: values, each slot of state, and two words of what
  // eviction knows.
  size_t copy_width() const;
  /// Shapes: out [ids, copy_width()]. Errors: an id that is not there is a bug
  /// and asserts.
  void copy(const RowList& ids, float* out) const;
  /// Puts rows in as they are elsewhere; there is no version before until the
  /// next update. Shapes: rows [ids, copy_width()].
  void put(const RowList& ids, const float* rows);
  void adopt(uint64_t version); ///< ends a copy, which is of that version

  // The version before, where there is one: a copy of that and of what the
  // newest has changed makes both elsewhere.
  IdPages present_before() const;
  void copy_before(const RowList& ids, float* out) const;
  struct Changed {
    IdPages rows; ///< touched or made
    IdPages gone; ///< evicted
  };
  Changed changed() const;
  /// Makes the next version of what changed() and copy() gave of it.
  void follow(const Changed& changed, const float* rows);

private:
  struct UndoHead;
  struct UndoGroup;
  /// A page of the version before, as far as the update has changed it.
  struct OldPage {
    uint64_t page = 0;
    uint64_t bits = 0; ///< what the update touched
    PageRows existed;  ///< what of it was there
    PackedRows rows;
  };

  enum class Version { newest, before };
  /// Calls each(place in the list, rows, rank) for those that are there.
  template <class Each>
  void for_rows(const RowList& ids, Version version, Each each) const;
  void make_up(const RowList& ids, Version version, float* out, size_t stride,
               uint32_t runs) const;
  void bring_to(uint64_t version, const RowList& ids);
  RowList sweep();
  void number(uint64_t version);
  uint64_t least_number() const;

  void read_rows(const IdPage& ids, PageRows there, const PackedRows& from,
                 float*& out) const;
  void apply(const OptimizerOptions& rule, UpdateArgs moment,
             const RowList& ids, const float* gradient_sum);

  UndoHead& undo_head() const;
  std::span<UndoGroup> undo_groups() const;
  std::vector<OldPage> old_pages() const;
  void write_undo(const RowList& ids, bool blocks_stay);
  void write_group(UndoGroup& group, const RowList::Visit& visit,
                   const RowList& ids, kernels::RowBlock* block) const;
  void put_rows(const RowList& ids, const float* rows, uint64_t version);
  void copy_rows(const IdPage& ids, PageRows there, const PackedRows& from,
                 float*& out) const;
  void take_back();
  IdPages due(std::span<const IdPage> touched) const;

  TableOptions options_;
  RowBlocks blocks_;
  uint64_t version_ = 0;
  uint64_t evicted_ = 0;
  kernels::MissedUpdates missed_;
  kernels::RowSweep sweep_;
};

} // namespace troupe
