#include "kernels/table/row_blocks.hpp"

#include "kernels/base/require.hpp"

#include <algorithm>
#include <atomic>
#include <cstring>

namespace troupe {

using kernels::RowBlock;

namespace {

/// Lists remember where a table had their rows; another table in its place is
/// another one.
uint64_t next_number() {
  static std::atomic<uint64_t> tables{0};
  return ++tables;
}

bool lacks(const RowList::Visit& visit, const RowList& ids,
           const RowBlock* block) {
  bool any = false;
  if (!visit.whole)
    RowBlocks::for_pages(visit, ids, block,
                         [&](const IdPage& page, PageRows x) {
                           any = any || (page.bits & ~x.bits) != 0;
                         });
  return any;
}

std::span<const IdPage> pages_of(const RowBlock* block) {
  if (block == nullptr)
    return {};
  return {block->ids(), block->pages()};
}

} // namespace

RowBlocks::RowBlocks(const TableOptions& options, int descriptor,
                     uint64_t offset)
  : initial_(options.initial),
    memory_({options.width, options.slots,
             options.eviction.any() || options.idle.any(),
             options.eviction.max_bytes},
            descriptor, offset),
    number_(next_number()) {}

IdPages RowBlocks::present() const {
  IdPages pages;
  index_.for_each([&](uint64_t, uint64_t block) {
    const auto its = pages_of(at(block));
    pages.insert(pages.end(), its.begin(), its.end());
  });
  return pages;
}

IdPages RowBlocks::following(uint64_t& page, uint64_t rows) const {
  IdPages pages;
  uint64_t found = 0;
  do {
    const auto next = index_.find(page);
    if (next.block == 0) {
      page = 0;
      break;
    }
    const auto its = pages_of(at(next.block));
    pages.insert(pages.end(), its.begin(), its.end());
    found += at(next.block)->rows();
    page = next.end == ~uint64_t{0} ? 0 : next.end;
  } while (found < rows && page != 0);
  return pages;
}

// --- where rows are ----------------------------------------------------------

PackedRows RowBlocks::packed_at(std::byte* memory, uint32_t rows) const {
  auto* words = reinterpret_cast<uint64_t*>(memory);
  const auto count = shape().with_word ? rows : 0;
  return {words, reinterpret_cast<float*>(words + count), rows};
}

void RowBlocks::copy_rows(const PackedRows& from, uint32_t from_rank,
                          const PackedRows& to, uint32_t to_rank,
                          uint32_t rows) const {
  const auto width = shape().width;
  for (uint32_t run = 0; run <= shape().slots; ++run)
    std::memcpy(to.values + (run * to.rows + to_rank) * width,
                from.values + (run * from.rows + from_rank) * width,
                rows * width * sizeof(float));
  if (shape().with_word)
    std::memcpy(to.words + to_rank, from.words + from_rank,
                rows * sizeof(uint64_t));
}

/// The first place whose page is not below `page`; none before `from` has it.
uint32_t RowBlocks::place_in(const RowBlock& block, uint64_t page,
                             uint32_t from) {
  const auto* pages = block.ids();
  const auto count = block.pages();
  auto low = std::min(from, count);
  auto high = low;
  for (uint32_t step = 1; high < count && pages[high].page < page; step *= 2) {
    low = high + 1;
    high += step;
  }
  const auto* found = std::lower_bound(
    pages + low, pages + std::min(high, count), page,
    [](const IdPage& x, uint64_t number) { return x.page < number; });
  return static_cast<uint32_t>(found - pages);
}

PageRows RowBlocks::find_in(const RowBlock& block, uint64_t page) {
  const auto place = place_in(block, page, 0);
  if (place == block.pages() || block.ids()[place].page != page)
    return {};
  return {block.ids()[place].bits, block.ranks()[place]};
}

const std::vector<RowList::Visit>& RowBlocks::visits(const RowList& ids) const {
  auto& visits = ids.visits_;
  if (ids.table_ == number_ && ids.state_ == state_)
    return visits;
  ids.table_ = number_;
  ids.state_ = state_;
  visits.clear();
  const auto& pages = ids.pages();
  const auto count = static_cast<uint32_t>(pages.size());
  constexpr uint32_t ahead = 16;
  kernels::PageIndex::Cursor cursor{index_};
  uint32_t near = 0;
  for (uint32_t begin = 0; begin < count;) {
    for (; near < std::min(begin + ahead, count); ++near)
      cursor.prefetch(pages[near].page);
    const auto found = cursor.find(pages[begin].page);
    auto end = begin + 1;
    while (end < count && pages[end].page < found.end)
      ++end;
    visits.push_back({found.block, begin, end, false});
    begin = end;
  }
  for (size_t i = 0; i < visits.size(); ++i) {
    if (i + ahead < visits.size() && visits[i + ahead].block != 0)
      __builtin_prefetch(at(visits[i + ahead].block));
    auto& visit = visits[i];
    const auto its = visit.of(ids);
    if (visit.block != 0 && at(visit.block)->pages() == its.size())
      visit.whole =
        std::memcmp(at(visit.block)->ids(), its.data(), its.size_bytes()) == 0;
  }
  return visits;
}

// --- rows come and go --------------------------------------------------------

void RowBlocks::make(const RowList& ids) {
  for (const auto& visit : visits(ids)) {
    auto* block = visit.block == 0 ? nullptr : at(visit.block);
    if (!lacks(visit, ids, block))
      continue;
    const auto had = pages_of(block);
    const auto asked = visit.of(ids);
    const bool behind = had.empty() || had.back().page <= asked.front().page;
    replace({&block, block == nullptr ? size_t{0} : 1}, united(had, asked),
            behind);
  }
}

void RowBlocks::drop(const RowList& ids) {
  for (const auto& visit : visits(ids)) {
    if (visit.block == 0)
      continue;
    auto* block = at(visit.block);
    const auto left = without(pages_of(block), visit.of(ids));
    if (count_ids(left) < block->rows())
      replace({&block, 1}, left, false);
  }
}

/// Puts these pages' rows in new blocks instead of the old ones'. Rows that are
/// added in order leave full blocks behind, others room in each.
void RowBlocks::replace(Blocks old, std::span<const IdPage> pages,
                        bool in_order) {
  ++state_;
  uint64_t all = 0;
  for (const auto& page : pages)
    all += page.count();
  const uint64_t most = shape().max_rows();
  const auto blocks = (all + most - 1) / most;
  const auto enough = in_order || blocks == 0 ? most
                                              : (all + blocks - 1) / blocks;
  struct Fresh {
    uint64_t first;
    uint64_t block;
  };
  std::vector<Fresh> fresh;
  for (size_t begin = 0; begin < pages.size();) {
    uint32_t rows = 0;
    auto end = begin;
    while (end < pages.size() && rows < enough
           && rows + pages[end].count() <= most)
      rows += pages[end++].count();
    fresh.push_back({pages[begin].page,
                     new_block(pages.subspan(begin, end - begin), rows, old)});
    begin = end;
  }
  for (auto* block : old)
    index_.erase(block->ids()->page);
  for (const auto& [first, block] : fresh)
    index_.put(first, block);
  rows_ += all;
  for (auto* block : old) {
    rows_ -= block->rows();
    memory_.give(memory_.place(block));
  }
}

uint64_t RowBlocks::new_block(std::span<const IdPage> pages, uint32_t rows,
                              Blocks old) {
  const auto place = memory_.take(shape().block_bytes(pages.size(), rows));
  auto* block = at(place);
  std::memcpy(static_cast<void*>(block->ids()), pages.data(),
              pages.size_bytes());
  auto* ranks = reinterpret_cast<uint16_t*>(block->ids() + pages.size());
  const auto to = packed_at(reinterpret_cast<std::byte*>(block)
                              + kernels::RowShape::head_bytes(pages.size()),
                            rows);
  uint32_t rank = 0;
  for (const auto& page : pages) {
    *ranks++ = static_cast<uint16_t>(rank);
    fill(page, to, rank, old);
    rank += page.count();
  }
  std::atomic_ref{block->filled}.store(uint64_t{pages.size()} << 32 | rows);
  return place;
}

/// Copies a page's rows from the old blocks that have them and writes the
/// others.
void RowBlocks::fill(const IdPage& page, const PackedRows& to, uint32_t rank,
                     Blocks old) const {
  auto wanted = page.bits;
  for (auto* block : old) {
    const auto here = find_in(*block, page.page);
    auto left = wanted & here.bits;
    wanted &= ~left;
    const auto from = packed(block);
    while (left != 0) {
      const auto bit = static_cast<uint32_t>(std::countr_zero(left));
      const auto run = static_cast<uint32_t>(std::countr_one(left >> bit));
      left &= run + bit >= page_ids ? 0 : ~uint64_t{0} << (run + bit);
      copy_rows(from, here.rank + rank_in(here.bits, bit), to,
                rank + rank_in(page.bits, bit), run);
    }
  }
  initialise(page, wanted, to, rank);
}

void RowBlocks::initialise(const IdPage& page, uint64_t fresh,
                           const PackedRows& to, uint32_t rank) const {
  const auto width = shape().width;
  for (auto left = fresh; left != 0;) {
    const auto bit = static_cast<uint32_t>(std::countr_zero(left));
    const auto run = static_cast<uint32_t>(std::countr_one(left >> bit));
    left &= run + bit >= page_ids ? 0 : ~uint64_t{0} << (run + bit);
    const auto at = rank + rank_in(page.bits, bit);
    initial_(page.page * page_ids + bit, run, to.values + at * width);
    for (uint32_t slot = 1; slot <= shape().slots; ++slot)
      std::memset(to.values + (slot * to.rows + at) * width, 0,
                  run * width * sizeof(float));
    if (shape().with_word)
      std::fill_n(to.words + at, run, uint64_t{0});
  }
}

void RowBlocks::clear() {
  ++state_;
  memory_.clear();
  index_ = {};
  rows_ = 0;
}

/// Blocks overlap where one was being replaced: all of them have the same rows
/// but for those that the update, which is taken back, has touched.
void RowBlocks::recover() {
  std::vector<RowBlock*> blocks;
  for (auto block : memory_.recover())
    blocks.push_back(at(block));
  std::sort(blocks.begin(), blocks.end(), [](const auto* a, const auto* b) {
    return a->ids()->page < b->ids()->page;
  });
  for (size_t begin = 0; begin < blocks.size();) {
    IdPages pages{};
    auto end = begin;
    do {
      pages = united(pages, pages_of(blocks[end]));
      rows_ += blocks[end++]->rows();
    } while (end < blocks.size()
             && blocks[end]->ids()->page <= pages.back().page);
    if (end - begin == 1)
      index_.put(pages.front().page, memory_.place(blocks[begin]));
    else
      replace(std::span{blocks}.subspan(begin, end - begin), pages, false);
    begin = end;
  }
}

} // namespace troupe
