#pragma once

#include "kernels/table/page_index.hpp"
#include "kernels/table/row_list.hpp"
#include "kernels/table/row_memory.hpp"
#include "kernels/table/table_options.hpp"

#include <bit>
#include <cstdint>
#include <span>
#include <vector>

namespace troupe {

/// Rows that lie packed, with those of neighbouring pages.
struct PackedRows {
  uint64_t* words = nullptr; ///< touches.hpp, or updates that it has had
  float* values = nullptr;
  uint32_t rows = 0;
};

/// What there is of a page.
struct PageRows {
  uint64_t bits = 0;
  uint32_t rank = 0; ///< of its first row among the packed ones
};

/// Calls visit(rank, rows) for each run of `wanted` whose rows lie side by side
/// where there are `bits`, which hold all that is wanted.
template <class Visit>
void for_row_runs(uint64_t bits, uint64_t wanted, Visit visit) {
  if (wanted == bits) {
    visit(uint32_t{0}, static_cast<uint32_t>(std::popcount(bits)));
    return;
  }
  uint32_t begin = 0;
  uint32_t rows = 0;
  for (auto left = wanted; left != 0; left &= left - 1) {
    const auto bit = static_cast<uint32_t>(std::countr_zero(left));
    const auto rank = rank_in(bits, bit);
    if (rows > 0 && rank == begin + rows) {
      ++rows;
      continue;
    }
    if (rows > 0)
      visit(begin, rows);
    begin = rank;
    rows = 1;
  }
  if (rows > 0)
    visit(begin, rows);
}

/// Where a table has its rows: blocks of neighbouring pages in order of the
/// ids, so that ids which ascend go through memory forwards. A block that rows
/// are added to, or taken from, is replaced by others: those are whole before
/// the old one is let go, and untouched rows have the same bits in both, so
/// what a killed process has left is their union. Owner: one thread writes.
class RowBlocks {
public:
  RowBlocks(const TableOptions& options, int descriptor, uint64_t offset);

  const kernels::RowShape& shape() const { return memory_.shape(); }
  uint64_t rows() const { return rows_; }
  uint64_t bytes() const { return memory_.bytes() + index_.bytes(); }
  IdPages present() const;
  /// The blocks from the one of `page` on that have so many rows, one at least;
  /// `page` becomes that which comes after them, 0: none does.
  IdPages following(uint64_t& page, uint64_t rows) const;
  std::byte* undo() const { return memory_.undo(); }
  void need_undo(uint64_t bytes) { memory_.need_undo(bytes); }

  kernels::RowBlock* at(uint64_t block) const { return memory_.at(block); }
  PackedRows packed(kernels::RowBlock* block) const {
    return packed_at(block->packed(), block->rows());
  }
  PackedRows packed_at(std::byte* memory, uint32_t rows) const;
  void copy_rows(const PackedRows& from, uint32_t from_rank,
                 const PackedRows& to, uint32_t to_rank, uint32_t rows) const;

  /// By block, in order; until rows come or go.
  const std::vector<RowList::Visit>& visits(const RowList& ids) const;
  /// Calls each(visit, block or null) for each of them, with what it reads
  /// first on its way to the processor some blocks ahead.
  template <class Each>
  void for_visits(const RowList& ids, Each each) const {
    constexpr size_t ahead = 8;
    const auto& all = visits(ids);
    for (size_t i = 0; i < all.size(); ++i) {
      if (i + ahead < all.size() && all[i + ahead].block != 0)
        __builtin_prefetch(at(all[i + ahead].block));
      each(all[i], all[i].block == 0 ? nullptr : at(all[i].block));
    }
  }
  /// Calls each(page of ids, what the block has of it) for a visit's pages.
  template <class Each>
  static void for_pages(const RowList::Visit& visit, const RowList& ids,
                        const kernels::RowBlock* block, Each each) {
    uint32_t place = 0;
    for (const auto& page : visit.of(ids)) {
      PageRows here;
      if (block != nullptr) {
        place = place_in(*block, page.page, place);
        if (place < block->pages() && block->ids()[place].page == page.page)
          here = {block->ids()[place].bits, block->ranks()[place]};
      }
      each(page, here);
    }
  }
  /// Calls each(page of ids, PageRows, PackedRows) for all.
  template <class Each>
  void for_all_pages(const RowList& ids, Each each) const {
    for_visits(ids, [&](const RowList::Visit& visit, kernels::RowBlock* block) {
      const auto rows = block == nullptr ? PackedRows{} : packed(block);
      for_pages(visit, ids, block, [&](const IdPage& page, PageRows here) {
        each(page, here, rows);
      });
    });
  }

  void make(const RowList& ids); ///< rows that are not there, as initialised
  void drop(const RowList& ids); ///< rows that are there
  void clear();
  /// Finds again what an earlier process has left.
  void recover();

private:
  using Blocks = std::span<kernels::RowBlock* const>;
  static uint32_t place_in(const kernels::RowBlock& block, uint64_t page,
                           uint32_t from);
  static PageRows find_in(const kernels::RowBlock& block, uint64_t page);
  void replace(Blocks old, std::span<const IdPage> pages, bool in_order);
  uint64_t new_block(std::span<const IdPage> pages, uint32_t rows, Blocks old);
  void fill(const IdPage& page, const PackedRows& to, uint32_t rank,
            Blocks old) const;
  void initialise(const IdPage& page, uint64_t fresh, const PackedRows& to,
                  uint32_t rank) const;

  const InitialRows initial_;
  mutable kernels::RowMemory memory_;
  kernels::PageIndex index_;
  const uint64_t number_; ///< among the tables of the process
  uint64_t state_ = 1;    ///< counts changes of what is where
  uint64_t rows_ = 0;
};

} // namespace troupe
