#include "kernels/base/require.hpp"
#include "kernels/table/sparse_table.hpp"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <stdexcept>

// What makes an update undone: the rows as they were; copies.

namespace troupe {

using kernels::RowBlock;

/// Begins the record in RowMemory::undo(): head, groups, what they hold.
struct SparseTable::UndoHead {
  std::atomic<uint64_t> version; ///< it leads back from there; 0: it does not
  uint64_t groups;
  uint64_t bytes;
};

/// Rows that lay in one block. Where the update touches them all, none comes
/// or goes and the block stays: it still says which they are. Otherwise
///
///   pages touched | of each, what existed | rows that existed
struct SparseTable::UndoGroup {
  uint64_t block; ///< 0: pages follow, otherwise it has them
  uint64_t at;    ///< bytes from the record's begin
  uint32_t pages;
  uint32_t rows;
};

SparseTable::SparseTable(TableOptions options, int descriptor, uint64_t offset,
                         uint64_t version)
  : options_(std::move(options)),
    blocks_(options_, descriptor, offset),
    missed_(options_.width, options_.slots, options_.idle) {
  kernels::require(!missed_.any() || !options_.eviction.any(),
                   "rows that make up updates are not evicted");
  blocks_.recover();
  version_ = version;
  if (undo_head().version.load() == version + 1)
    take_back();
  else if (undo_head().version.load() != version)
    undo_head().version.store(0);
  if (missed_.any())
    sweep_.begin(least_number());
}

// --- the record --------------------------------------------------------------

SparseTable::UndoHead& SparseTable::undo_head() const {
  return *reinterpret_cast<UndoHead*>(blocks_.undo());
}

std::span<SparseTable::UndoGroup> SparseTable::undo_groups() const {
  if (undo_head().version.load() == 0)
    return {};
  return {reinterpret_cast<UndoGroup*>(&undo_head() + 1), undo_head().groups};
}

/// `blocks_stay`: no row that is there goes, so a block of which all rows are
/// touched is not replaced.
void SparseTable::write_undo(const RowList& ids, bool blocks_stay) {
  auto& head = undo_head();
  head.version.store(0);
  const auto& visits = blocks_.visits(ids);
  auto* group = reinterpret_cast<UndoGroup*>(&head + 1);
  uint64_t at = sizeof(UndoHead) + visits.size() * sizeof(UndoGroup);
  blocks_.need_undo(at);
  const auto row_bytes = blocks_.shape().row_bytes();
  blocks_.for_visits(ids, [&](const RowList::Visit& visit, RowBlock* block) {
    *group = {0, at, visit.end - visit.begin, 0};
    uint64_t most = block == nullptr ? 0 : block->rows() * row_bytes;
    if (visit.whole && blocks_stay)
      group->block = visit.block;
    else
      most += group->pages * (sizeof(IdPage) + sizeof(uint64_t));
    if (at + most > kernels::RowMemory::max_undo_bytes)
      throw std::runtime_error("a step touches more rows of a table than one "
                               "shard can keep; add shards");
    blocks_.need_undo(at + most);
    write_group(*group, visit, ids, block);
    at += group->rows * row_bytes;
    if (group->block == 0)
      at += group->pages * (sizeof(IdPage) + sizeof(uint64_t));
    at = (at + 7) / 8 * 8;
    ++group;
  });
  head.groups = visits.size();
  head.bytes = at;
  head.version.store(version_ + 1);
}

void SparseTable::write_group(UndoGroup& group, const RowList::Visit& visit,
                              const RowList& ids, RowBlock* block) const {
  auto* memory = blocks_.undo() + group.at;
  if (group.block != 0) {
    group.rows = block->rows();
    std::memcpy(memory, block->packed(),
                group.rows * blocks_.shape().row_bytes());
    return;
  }
  const auto touched = visit.of(ids);
  std::memcpy(memory, touched.data(), touched.size_bytes());
  memory += touched.size_bytes();
  auto* existed = reinterpret_cast<uint64_t*>(memory);
  memory += touched.size() * sizeof(uint64_t);
  size_t i = 0;
  RowBlocks::for_pages(
    visit, ids, block, [&](const IdPage& page, PageRows here) {
      existed[i] = page.bits & here.bits;
      group.rows += static_cast<uint32_t>(std::popcount(existed[i++]));
    });
  if (group.rows == 0)
    return;
  const auto from = blocks_.packed(block);
  const auto to = blocks_.packed_at(memory, group.rows);
  uint32_t rank = 0;
  RowBlocks::for_pages(
    visit, ids, block, [&](const IdPage& page, PageRows here) {
      if ((page.bits & here.bits) != 0)
        for_row_runs(
          here.bits, page.bits & here.bits, [&](uint32_t first, uint32_t rows) {
            blocks_.copy_rows(from, here.rank + first, to, rank, rows);
            rank += rows;
          });
    });
}

/// By page, in order.
std::vector<SparseTable::OldPage> SparseTable::old_pages() const {
  std::vector<OldPage> old;
  for (const auto& group : undo_groups()) {
    auto* memory = blocks_.undo() + group.at;
    if (group.block != 0) {
      const auto* block = blocks_.at(group.block);
      const auto rows = blocks_.packed_at(memory, group.rows);
      for (uint32_t i = 0; i < group.pages; ++i) {
        const auto& page = block->ids()[i];
        old.push_back(
          {page.page, page.bits, {page.bits, block->ranks()[i]}, rows});
      }
      continue;
    }
    const auto* touched = reinterpret_cast<const IdPage*>(memory);
    const auto* existed =
      reinterpret_cast<const uint64_t*>(touched + group.pages);
    const auto rows = blocks_.packed_at(
      memory + group.pages * (sizeof(IdPage) + sizeof(uint64_t)), group.rows);
    uint32_t rank = 0;
    for (uint32_t i = 0; i < group.pages; ++i) {
      old.push_back(
        {touched[i].page, touched[i].bits, {existed[i], rank}, rows});
      rank += static_cast<uint32_t>(std::popcount(existed[i]));
    }
  }
  return old;
}

void SparseTable::take_back() {
  const auto old = old_pages();
  IdPages existed;
  IdPages fresh;
  for (const auto& page : old) {
    if (page.existed.bits != 0)
      existed.push_back({page.page, page.existed.bits});
    if (page.bits != page.existed.bits)
      fresh.push_back({page.page, page.bits & ~page.existed.bits});
  }
  const RowList back{std::move(existed)};
  blocks_.make(back);
  auto from = old.begin();
  blocks_.for_all_pages(back, [&](const IdPage& page, PageRows here,
                                  const PackedRows& to) {
    while (from->page != page.page)
      ++from;
    auto rank = from->existed.rank;
    for_row_runs(here.bits, page.bits, [&](uint32_t first, uint32_t rows) {
      blocks_.copy_rows(from->rows, rank, to, here.rank + first, rows);
      rank += rows;
    });
  });
  blocks_.drop(RowList{std::move(fresh)});
  undo_head().version.store(0);
}

// --- copies ------------------------------------------------------------------

size_t SparseTable::copy_width() const {
  const auto words = options_.eviction.any() ? sizeof(uint64_t) : 0;
  return blocks_.shape().row_floats() + words / sizeof(float);
}

/// Copies of a page's rows, all of which are `there`.
void SparseTable::copy_rows(const IdPage& ids, PageRows there,
                            const PackedRows& from, float*& out) const {
  kernels::require((ids.bits & ~there.bits) == 0,
                   "a copy of rows that are not there");
  const auto width = options_.width;
  const auto floats = blocks_.shape().row_floats();
  for (auto left = ids.bits; left != 0; left &= left - 1) {
    const auto rank = there.rank
                      + rank_in(there.bits,
                                static_cast<uint32_t>(std::countr_zero(left)));
    for (uint32_t run = 0; run <= options_.slots; ++run)
      std::memcpy(out + run * width,
                  from.values + (run * from.rows + rank) * width,
                  width * sizeof(float));
    if (options_.eviction.any())
      std::memcpy(out + floats, from.words + rank, sizeof(uint64_t));
    out += copy_width();
  }
}

void SparseTable::copy(const RowList& ids, float* out) const {
  auto* next = out;
  blocks_.for_all_pages(ids, [&](const IdPage& page, PageRows there,
                                 const PackedRows& from) {
    copy_rows(page, there, from, next);
  });
  make_up(ids, Version::newest, out, copy_width(), 1 + options_.slots);
}

void SparseTable::create(const RowList& ids) {
  undo_head().version.store(0);
  blocks_.make(ids);
}

void SparseTable::put(const RowList& ids, const float* rows) {
  undo_head().version.store(0);
  put_rows(ids, rows, version_);
}

void SparseTable::put_rows(const RowList& ids, const float* rows,
                           uint64_t version) {
  blocks_.make(ids);
  const auto width = options_.width;
  const auto floats = blocks_.shape().row_floats();
  blocks_.for_all_pages(ids, [&](const IdPage& page, PageRows there,
                                 const PackedRows& to) {
    for_each_id({&page, 1}, [&](uint64_t id) {
      const auto bit = static_cast<uint32_t>(id % page_ids);
      const auto rank = there.rank + rank_in(there.bits, bit);
      for (uint32_t run = 0; run <= options_.slots; ++run)
        std::memcpy(to.values + (run * to.rows + rank) * width,
                    rows + run * width, width * sizeof(float));
      if (options_.eviction.any())
        std::memcpy(to.words + rank, rows + floats, sizeof(uint64_t));
      else if (missed_.any())
        to.words[rank] = version;
      rows += copy_width();
    });
  });
}

void SparseTable::adopt(uint64_t version) {
  version_ = version;
  undo_head().version.store(0);
  if (missed_.any())
    number(version);
}

// --- copies of two versions --------------------------------------------------

IdPages SparseTable::present_before() const {
  IdPages touched;
  IdPages existed;
  for (const auto& page : old_pages()) {
    touched.push_back({page.page, page.bits});
    if (page.existed.bits != 0)
      existed.push_back({page.page, page.existed.bits});
  }
  return united(without(present(), touched), existed);
}

void SparseTable::copy_before(const RowList& ids, float* out) const {
  auto* next = out;
  const auto old = old_pages();
  auto at = old.begin();
  blocks_.for_all_pages(ids, [&](const IdPage& page, PageRows there,
                                 const PackedRows& from) {
    at = std::lower_bound(at, old.end(), page.page,
                          [](const OldPage& x, uint64_t number) {
                            return x.page < number;
                          });
    const bool older = at != old.end() && at->page == page.page;
    for (auto left = page.bits; left != 0; left &= left - 1) {
      const IdPage one{page.page, left & -left};
      if (older && (at->bits & one.bits) != 0)
        copy_rows(one, at->existed, at->rows, next);
      else
        copy_rows(one, there, from, next);
    }
  });
  make_up(ids, Version::before, out, copy_width(), 1 + options_.slots);
}

SparseTable::Changed SparseTable::changed() const {
  IdPages touched;
  for (const auto& page : old_pages())
    touched.push_back({page.page, page.bits});
  Changed changed;
  blocks_.for_all_pages(RowList{std::move(touched)}, [&](const IdPage& page,
                                                         PageRows there,
                                                         const PackedRows&) {
    const auto here = page.bits & there.bits;
    if (here != 0)
      changed.rows.push_back({page.page, here});
    if (here != page.bits)
      changed.gone.push_back({page.page, page.bits & ~here});
  });
  return changed;
}

void SparseTable::follow(const Changed& changed, const float* rows) {
  write_undo(RowList{united(changed.rows, changed.gone)}, changed.gone.empty());
  blocks_.drop(RowList{changed.gone});
  put_rows(RowList{changed.rows}, rows, version_ + 1);
  ++version_;
}

void SparseTable::clear() {
  blocks_.clear();
  version_ = 0;
  sweep_.begin(0);
}

uint64_t SparseTable::bytes() const {
  const auto undo = undo_head().version.load() == 0 ? 0 : undo_head().bytes;
  return blocks_.bytes() + undo;
}

} // namespace troupe
