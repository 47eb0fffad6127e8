#include "kernels/require.hpp"
#include "kernels/table/sparse_table.hpp"
#include "kernels/table/touches.hpp"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <stdexcept>

// What makes an update undone: the rows as they were; eviction; copies.

namespace troupe {

using kernels::RowBlock;

/// Begins the record in RowMemory::undo(): head, pages, rows.
struct SparseTable::UndoHead {
  std::atomic<uint64_t> version; ///< it leads back from there; 0: it does not
  uint64_t pages;
  uint64_t bytes;
};

SparseTable::SparseTable(TableOptions options, int descriptor, uint64_t offset,
                         uint64_t version)
  : options_(std::move(options)),
    memory_({options_.width, options_.slots, options_.eviction.any()},
            descriptor, offset) {
  if (memory_.recovered())
    recover(version);
  version_ = version;
}

// --- after a kill ------------------------------------------------------------

void SparseTable::recover(uint64_t version) {
  memory_.recover([this](uint64_t block) {
    auto* found = memory_.at(block);
    auto* other = find(found->page);
    // A page was on its way from one block to another: the larger one has all.
    if (other != nullptr
        && std::popcount(other->bits) >= std::popcount(found->bits)) {
      memory_.give(block);
      return;
    }
    if (other != nullptr) {
      rows_ -= static_cast<uint64_t>(std::popcount(other->bits));
      memory_.give(memory_.place(other));
    }
    index_.put(found->page, block);
    rows_ += static_cast<uint64_t>(std::popcount(found->bits));
  });
  if (undo_head().version.load() == version + 1)
    take_back();
  else if (undo_head().version.load() != version)
    undo_head().version.store(0);
}

void SparseTable::take_back() {
  for (const auto& undo : undo_pages()) {
    if (undo.existed != 0) {
      auto* block = ensure(find(undo.page), {undo.page, undo.existed});
      const auto from = undo_rows(undo);
      const auto to = packed(block);
      uint32_t rank = 0;
      for (auto left = undo.existed; left != 0; left &= left - 1)
        copy_row(from, rank++, to,
                 rank_in(block->bits,
                         static_cast<uint32_t>(std::countr_zero(left))));
    }
    drop({undo.page, undo.bits & ~undo.existed});
  }
  undo_head().version.store(0);
}

SparseTable::UndoHead& SparseTable::undo_head() const {
  return *reinterpret_cast<UndoHead*>(memory_.undo());
}

std::span<const SparseTable::UndoPage> SparseTable::undo_pages() const {
  if (undo_head().version.load() == 0)
    return {};
  return {reinterpret_cast<const UndoPage*>(&undo_head() + 1),
          undo_head().pages};
}

SparseTable::Packed SparseTable::undo_rows(const UndoPage& page) const {
  return packed_at(memory_.undo() + page.at,
                   static_cast<uint32_t>(std::popcount(page.existed)));
}

void SparseTable::write_undo(std::span<const IdPage> ids) {
  auto& head = undo_head();
  head.version.store(0);
  auto* pages = reinterpret_cast<UndoPage*>(&head + 1);
  uint64_t at = sizeof(UndoHead) + ids.size() * sizeof(UndoPage);
  for_blocks(ids, [&](const IdPage& page, RowBlock* block) {
    const auto bits = block == nullptr ? 0 : block->bits;
    const UndoPage undo{page.page, page.bits, page.bits & bits, at};
    *pages++ = undo;
    const auto rows = static_cast<uint64_t>(std::popcount(undo.existed));
    const auto bytes = rows * memory_.shape().row_bytes();
    if (bytes > memory_.most_undo_bytes - at)
      throw std::runtime_error("a step touches more rows of a table than one "
                               "shard can keep; add shards");
    at += (bytes + 7) / 8 * 8;
    if (rows == 0)
      return;
    const auto from = packed(block);
    const auto to = undo_rows(undo);
    if (undo.existed == bits) {
      std::memcpy(static_cast<void*>(to.touched), from.touched, bytes);
      return;
    }
    uint32_t rank = 0;
    for (auto left = undo.existed; left != 0; left &= left - 1)
      copy_row(from,
               rank_in(bits, static_cast<uint32_t>(std::countr_zero(left))), to,
               rank++);
  });
  head.pages = ids.size();
  head.bytes = at;
  head.version.store(version_ + 1);
}

// --- eviction ----------------------------------------------------------------

/// The rows to give up before the update to the next version, which is about to
/// touch `touched`: a function of what the rows hold alone.
IdPages SparseTable::due(std::span<const IdPage> touched) const {
  const auto& limit = options_.eviction;
  const auto most_rows = limit.most_bytes / memory_.shape().row_bytes();
  const bool full = limit.most_bytes > 0 && rows_ > most_rows;
  const auto period = std::max<uint64_t>(1, limit.idle_steps / 8);
  const bool looks = limit.idle_steps > 0 && version_ % period == 0;
  if (!full && !looks)
    return {};
  struct Row {
    uint64_t rank; ///< the least go first
    uint64_t id;
    bool operator<(const Row& other) const {
      return rank != other.rank ? rank < other.rank : id < other.id;
    }
  };
  std::vector<Row> rows;
  std::vector<uint64_t> gone;
  const auto here = present();
  for (const auto& page : without(here, touched)) {
    auto* block = find(page.page);
    const auto from = packed(block);
    for_each_id({&page, 1}, [&](uint64_t id) {
      const auto word =
        from
          .touched[rank_in(block->bits, static_cast<uint32_t>(id % page_ids))];
      const bool frequent = limit.kept_count > 0
                            && kernels::touches(word) >= limit.kept_count;
      if (looks && !frequent
          && version_ - kernels::last_touch(word) >= limit.idle_steps)
        gone.push_back(id);
      else
        rows.push_back({word | uint64_t{frequent} << 63, id});
    });
  }
  // An eighth more than needed, so that not every step has to look.
  const auto target = most_rows - most_rows / 8;
  if (full && rows_ - gone.size() > target) {
    const auto count = std::min<uint64_t>(rows_ - gone.size() - target,
                                          rows.size());
    const auto end = rows.begin() + static_cast<ptrdiff_t>(count);
    std::nth_element(rows.begin(), end - (count > 0 ? 1 : 0), rows.end());
    for (auto at = rows.begin(); at != end; ++at)
      gone.push_back(at->id);
  }
  std::sort(gone.begin(), gone.end());
  return pages_of(gone);
}

// --- copies ------------------------------------------------------------------

IdPages SparseTable::present() const {
  IdPages pages;
  pages.reserve(index_.size());
  index_.for_each([&](uint64_t page, uint64_t block) {
    pages.push_back({page, memory_.at(block)->bits});
  });
  return pages;
}

size_t SparseTable::copy_width() const {
  return memory_.shape().row_bytes() / sizeof(float);
}

/// Copies of a page's rows, of which all are `there`.
void SparseTable::copy_rows(const IdPage& ids, uint64_t there,
                            const Packed& from, float*& out) const {
  kernels::require((ids.bits & ~there) == 0,
                   "a copy of rows that are not there");
  const auto floats = memory_.shape().row_floats();
  for (auto left = ids.bits; left != 0; left &= left - 1) {
    const auto rank = rank_in(there,
                              static_cast<uint32_t>(std::countr_zero(left)));
    for (uint32_t run = 0; run <= options_.slots; ++run)
      std::memcpy(out + run * options_.width,
                  from.values + (run * from.rows + rank) * options_.width,
                  options_.width * sizeof(float));
    if (memory_.shape().counted)
      std::memcpy(out + floats, from.touched + rank, sizeof(uint64_t));
    out += copy_width();
  }
}

void SparseTable::copy(std::span<const IdPage> ids, float* out) const {
  for_blocks(ids, [&](const IdPage& page, RowBlock* block) {
    kernels::require(block != nullptr, "a copy of rows that are not there");
    copy_rows(page, block->bits, packed(block), out);
  });
}

void SparseTable::put(std::span<const IdPage> ids, const float* rows) {
  undo_head().version.store(0);
  put_rows(ids, rows);
}

void SparseTable::put_rows(std::span<const IdPage> ids, const float* rows) {
  const auto floats = memory_.shape().row_floats();
  for_blocks(ids, [&](const IdPage& page, RowBlock* found) {
    auto* block = ensure(found, page);
    const auto to = packed(block);
    for_each_id({&page, 1}, [&](uint64_t id) {
      const auto rank = rank_in(block->bits,
                                static_cast<uint32_t>(id % page_ids));
      for (uint32_t run = 0; run <= options_.slots; ++run)
        std::memcpy(to.values + (run * to.rows + rank) * options_.width,
                    rows + run * options_.width,
                    options_.width * sizeof(float));
      if (memory_.shape().counted)
        std::memcpy(to.touched + rank, rows + floats, sizeof(uint64_t));
      rows += copy_width();
    });
  });
}

void SparseTable::adopt(uint64_t version) {
  version_ = version;
  undo_head().version.store(0);
}

// --- copies of two versions --------------------------------------------------

IdPages SparseTable::present_before() const {
  IdPages touched;
  IdPages existed;
  for (const auto& page : undo_pages()) {
    touched.push_back({page.page, page.bits});
    if (page.existed != 0)
      existed.push_back({page.page, page.existed});
  }
  return united(without(present(), touched), existed);
}

void SparseTable::copy_before(std::span<const IdPage> ids, float* out) const {
  const auto undo = undo_pages();
  auto at = undo.begin();
  for_blocks(ids, [&](const IdPage& page, RowBlock* block) {
    at = std::lower_bound(at, undo.end(), page.page,
                          [](const UndoPage& x, uint64_t number) {
                            return x.page < number;
                          });
    const bool older = at != undo.end() && at->page == page.page;
    for (auto left = page.bits; left != 0; left &= left - 1) {
      const IdPage one{page.page, left & -left};
      if (older && (at->bits & one.bits) != 0)
        copy_rows(one, at->existed, undo_rows(*at), out);
      else
        copy_rows(one, block == nullptr ? 0 : block->bits, packed(block), out);
    }
  });
}

SparseTable::Changed SparseTable::changed() const {
  Changed changed;
  for (const auto& page : undo_pages()) {
    const auto* block = find(page.page);
    const auto here = page.bits & (block == nullptr ? 0 : block->bits);
    if (here != 0)
      changed.rows.push_back({page.page, here});
    if (here != page.bits)
      changed.gone.push_back({page.page, page.bits & ~here});
  }
  return changed;
}

void SparseTable::follow(const Changed& changed, const float* rows) {
  write_undo(united(changed.rows, changed.gone));
  for (const auto& page : changed.gone)
    drop(page);
  put_rows(changed.rows, rows);
  ++version_;
}

void SparseTable::clear() {
  memory_.clear();
  index_ = {};
  version_ = 0;
  rows_ = 0;
}

uint64_t SparseTable::bytes() const {
  const auto undo = undo_head().version.load() == 0 ? 0 : undo_head().bytes;
  return memory_.bytes() + index_.bytes() + undo;
}

} // namespace troupe
