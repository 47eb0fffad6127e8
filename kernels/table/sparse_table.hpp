#pragma once

#include "kernels/optimizer.hpp"
#include "kernels/table/id_pages.hpp"
#include "kernels/table/page_index.hpp"
#include "kernels/table/row_memory.hpp"
#include "kernels/table/table_options.hpp"

#include <algorithm>
#include <cstdint>
#include <span>

namespace troupe {

/// A part of a sparse table: rows of float32 values and optimizer state by
/// 64-bit ids. A row is there from the first update that touches it; before
/// that, reading computes its initial value and stores nothing (PROTOCOL 4).
/// The version before the newest is kept, row by row as the last update found
/// it. In memory that outlives the process an update is whole or undone, at
/// whatever moment the process is killed.
/// Owner: one thread writes; others may read between updates.
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
  void read(std::span<const IdPage> ids, float* out) const;
  void read_before(std::span<const IdPage> ids, float* out) const;

  /// Makes the next version: evicts what is due, creates rows that are not
  /// there, updates the rows of these ids. `moment` is an update's arguments
  /// without pointers and count. Equal bits with update() of each row alone.
  /// Shapes: gradient_sum [ids, width].
  void update(const OptimizerOptions& rule, const UpdateArgs& moment,
              std::span<const IdPage> ids, const float* gradient_sum);

  /// Makes rows that are not there, as the first update would; the version
  /// stays.
  void create(std::span<const IdPage> ids);

  uint64_t rows() const { return rows_; }
  uint64_t evicted() const { return evicted_; } ///< since the start
  uint64_t bytes() const; ///< slabs, index, the rows of the version before

  void clear();            ///< no rows, version 0
  IdPages present() const; ///< the rows that are there

  // Copies of whole rows: values, each slot of state, and where rows are
  // counted two words of that.
  size_t copy_width() const;
  /// Shapes: out [ids, copy_width()]. Errors: an id that is not there is a bug
  /// and asserts.
  void copy(std::span<const IdPage> ids, float* out) const;
  /// Puts rows in as they are elsewhere; there is no version before until the
  /// next update. Shapes: rows [ids, copy_width()].
  void put(std::span<const IdPage> ids, const float* rows);
  void adopt(uint64_t version); ///< ends a copy, which is of that version

  // The version before, where there is one: a copy of that and of what the
  // newest has changed makes both elsewhere.
  IdPages present_before() const;
  void copy_before(std::span<const IdPage> ids, float* out) const;
  struct Changed {
    IdPages rows; ///< touched or made
    IdPages gone; ///< evicted
  };
  Changed changed() const;
  /// Makes the next version of what changed() and copy() gave of it.
  void follow(const Changed& changed, const float* rows);

private:
  struct UndoHead;
  /// Rows of a page, packed as in a block.
  struct Packed {
    uint64_t* touched = nullptr;
    float* values = nullptr;
    uint32_t rows = 0;
  };
  /// A page of the undo record.
  struct UndoPage {
    uint64_t page = 0;
    uint64_t bits = 0;    ///< what the update touched
    uint64_t existed = 0; ///< what of it was there: those rows follow
    uint64_t at = 0;      ///< bytes from the record's begin
  };

  kernels::RowBlock* find(uint64_t page) const;
  Packed packed(kernels::RowBlock* block) const;
  Packed packed_at(std::byte* memory, uint32_t rows) const;
  void copy_row(const Packed& from, uint32_t from_rank, const Packed& to,
                uint32_t to_rank) const;
  template <class Visit>
  void for_blocks(std::span<const IdPage> ids, Visit visit) const;
  void read_rows(const IdPage& ids, uint64_t there, const Packed& from,
                 float*& out) const;
  kernels::RowBlock* ensure(kernels::RowBlock* block, const IdPage& ids);
  void drop(const IdPage& ids);
  void move_to(kernels::RowBlock* old, uint64_t page, uint64_t bits);
  void initialise(const IdPage& fresh, uint64_t bits, const Packed& to) const;
  void recover(uint64_t version);

  UndoHead& undo_head() const;
  std::span<const UndoPage> undo_pages() const;
  Packed undo_rows(const UndoPage& page) const;
  void write_undo(std::span<const IdPage> ids);
  void put_rows(std::span<const IdPage> ids, const float* rows);
  void copy_rows(const IdPage& ids, uint64_t there, const Packed& from,
                 float*& out) const;
  void take_back();
  IdPages due(std::span<const IdPage> touched) const;

  TableOptions options_;
  mutable kernels::RowMemory memory_;
  kernels::PageIndex index_;
  uint64_t version_ = 0;
  uint64_t rows_ = 0;
  uint64_t evicted_ = 0;
};

/// Calls visit(page of ids, block or null), with what it reads on its way to
/// the processor some pages ahead.
template <class Visit>
void SparseTable::for_blocks(std::span<const IdPage> ids, Visit visit) const {
  constexpr size_t ahead = 16;
  uint64_t blocks[ahead];
  kernels::PageIndex::Cursor cursor{index_};
  for (size_t begin = 0; begin < ids.size(); begin += ahead) {
    const auto part = ids.subspan(begin, std::min(ahead, ids.size() - begin));
    for (const auto& page : part)
      cursor.prefetch(page.page);
    for (size_t i = 0; i < part.size(); ++i) {
      blocks[i] = cursor.find(part[i].page);
      if (blocks[i] != 0)
        __builtin_prefetch(memory_.at(blocks[i]));
    }
    for (size_t i = 0; i < part.size(); ++i)
      visit(part[i], blocks[i] == 0 ? nullptr : memory_.at(blocks[i]));
  }
}

} // namespace troupe
