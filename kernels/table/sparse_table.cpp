#include "kernels/table/sparse_table.hpp"

#include "kernels/optimizer/terms.hpp"
#include "kernels/require.hpp"
#include "kernels/table/touches.hpp"

#include <algorithm>
#include <atomic>
#include <cstring>

namespace troupe {

using kernels::RowBlock;

namespace {

/// Calls visit(rank, rows) for each run of `wanted` whose rows lie side by side
/// in a block that has `bits`, which hold all that is wanted.
template <class Visit>
void for_runs(uint64_t bits, uint64_t wanted, Visit visit) {
  if (wanted == bits) {
    visit(0, static_cast<uint32_t>(std::popcount(bits)));
    return;
  }
  uint32_t begin = 0;
  uint32_t rows = 0;
  for (auto left = wanted; left != 0; left &= left - 1) {
    const auto rank = rank_in(bits,
                              static_cast<uint32_t>(std::countr_zero(left)));
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

} // namespace

// --- where rows are ----------------------------------------------------------

RowBlock* SparseTable::find(uint64_t page) const {
  const auto block = index_.find(page);
  return block == 0 ? nullptr : memory_.at(block);
}

SparseTable::Packed SparseTable::packed_at(std::byte* memory,
                                           uint32_t rows) const {
  auto* touched = reinterpret_cast<uint64_t*>(memory);
  const auto counted = memory_.shape().counted ? rows : 0;
  return {touched, reinterpret_cast<float*>(touched + counted), rows};
}

SparseTable::Packed SparseTable::packed(RowBlock* block) const {
  return packed_at(reinterpret_cast<std::byte*>(block + 1),
                   static_cast<uint32_t>(std::popcount(block->bits)));
}

void SparseTable::copy_row(const Packed& from, uint32_t from_rank,
                           const Packed& to, uint32_t to_rank) const {
  const auto width = options_.width;
  for (uint32_t run = 0; run <= options_.slots; ++run)
    std::memcpy(to.values + (run * to.rows + to_rank) * width,
                from.values + (run * from.rows + from_rank) * width,
                width * sizeof(float));
  if (memory_.shape().counted)
    to.touched[to_rank] = from.touched[from_rank];
}

// --- reading -----------------------------------------------------------------

/// Copies the values of a page's ids out: from where they are, else initial.
void SparseTable::read_rows(const IdPage& ids, uint64_t there,
                            const Packed& from, float*& out) const {
  const auto width = options_.width;
  const auto wanted = ids.bits;
  if ((wanted & there) == wanted) {
    for_runs(there, wanted, [&](uint32_t rank, uint32_t rows) {
      std::memcpy(out, from.values + rank * width,
                  rows * width * sizeof(float));
      out += rows * width;
    });
    return;
  }
  for (auto left = wanted; left != 0; left &= left - 1, out += width) {
    const auto bit = static_cast<uint32_t>(std::countr_zero(left));
    if ((there >> bit & 1) != 0)
      std::memcpy(out, from.values + rank_in(there, bit) * width,
                  width * sizeof(float));
    else
      options_.initial(ids.page * page_ids + bit, 1, out);
  }
}

void SparseTable::read(std::span<const IdPage> ids, float* out) const {
  for_blocks(ids, [&](const IdPage& page, RowBlock* block) {
    if (block != nullptr)
      read_rows(page, block->bits, packed(block), out);
    else
      read_rows(page, 0, {}, out);
  });
}

void SparseTable::read_before(std::span<const IdPage> ids, float* out) const {
  const auto undo = undo_pages();
  auto at = undo.begin();
  for_blocks(ids, [&](const IdPage& page, RowBlock* block) {
    at = std::lower_bound(at, undo.end(), page.page,
                          [](const UndoPage& x, uint64_t number) {
                            return x.page < number;
                          });
    const bool older = at != undo.end() && at->page == page.page;
    const auto bits = block == nullptr ? 0 : block->bits;
    const auto rows = block == nullptr ? Packed{} : packed(block);
    if (!older) {
      read_rows(page, bits, rows, out);
      return;
    }
    for (auto left = page.bits; left != 0; left &= left - 1) {
      const IdPage one{page.page, left & -left};
      if ((at->bits & one.bits) != 0)
        read_rows(one, at->existed, undo_rows(*at), out);
      else
        read_rows(one, bits, rows, out);
    }
  });
}

// --- rows come and go --------------------------------------------------------

/// Writes rows of ids that are new in a block of `bits`.
void SparseTable::initialise(const IdPage& fresh, uint64_t bits,
                             const Packed& to) const {
  const auto width = options_.width;
  for (auto left = fresh.bits; left != 0;) {
    const auto bit = static_cast<uint32_t>(std::countr_zero(left));
    const auto run = static_cast<uint32_t>(std::countr_one(left >> bit));
    left &= run + bit >= page_ids ? 0 : ~uint64_t{0} << (run + bit);
    const auto rank = rank_in(bits, bit);
    options_.initial(fresh.page * page_ids + bit, run,
                     to.values + rank * width);
    for (uint32_t slot = 1; slot <= options_.slots; ++slot)
      std::memset(to.values + (slot * to.rows + rank) * width, 0,
                  run * width * sizeof(float));
    if (memory_.shape().counted)
      std::fill_n(to.touched + rank, run, uint64_t{0});
  }
}

/// Puts the page's rows into a new block that has `bits`; the old one is let go
/// once the new one is whole.
void SparseTable::move_to(RowBlock* old, uint64_t page, uint64_t bits) {
  const auto had = old == nullptr ? 0 : old->bits;
  if (bits == 0) {
    index_.erase(page);
  } else {
    const auto rows = static_cast<uint32_t>(std::popcount(bits));
    const auto block = memory_.take(rows);
    auto* fresh = memory_.at(block);
    const auto to = packed_at(reinterpret_cast<std::byte*>(fresh + 1), rows);
    if (old != nullptr) {
      const auto from = packed(old);
      for (auto left = bits & had; left != 0; left &= left - 1) {
        const auto bit = static_cast<uint32_t>(std::countr_zero(left));
        copy_row(from, rank_in(had, bit), to, rank_in(bits, bit));
      }
    }
    initialise({page, bits & ~had}, bits, to);
    fresh->page = page;
    std::atomic_ref{fresh->bits}.store(bits);
    index_.put(page, block);
  }
  rows_ += static_cast<uint64_t>(std::popcount(bits));
  rows_ -= static_cast<uint64_t>(std::popcount(had));
  if (old != nullptr)
    memory_.give(memory_.place(old));
}

RowBlock* SparseTable::ensure(RowBlock* block, const IdPage& ids) {
  const auto had = block == nullptr ? 0 : block->bits;
  if ((ids.bits & ~had) == 0)
    return block;
  move_to(block, ids.page, had | ids.bits);
  return find(ids.page);
}

void SparseTable::drop(const IdPage& ids) {
  auto* block = find(ids.page);
  if (block != nullptr && (block->bits & ids.bits) != 0)
    move_to(block, ids.page, block->bits & ~ids.bits);
}

void SparseTable::create(std::span<const IdPage> ids) {
  for_blocks(ids,
             [&](const IdPage& page, RowBlock* block) { ensure(block, page); });
}

// --- updates -----------------------------------------------------------------

void SparseTable::update(const OptimizerOptions& rule, const UpdateArgs& moment,
                         std::span<const IdPage> ids,
                         const float* gradient_sum) {
  kernels::require(state_slots(rule.kind) == options_.slots,
                   "a table with the state of another rule");
  kernels::require(moment.role == ParameterRole::trained,
                   "a statistic has no rows");
  const auto evicted = due(ids);
  const auto changed = evicted.empty() ? IdPages{} : united(ids, evicted);
  write_undo(evicted.empty() ? ids : std::span{changed});
  for (const auto& page : evicted)
    drop(page);
  evicted_ += count_ids(evicted);
  if (!ids.empty()) {
    auto args = moment;
    args.gradient_sum = args.in = args.state_in = gradient_sum;
    args.count = 0;
    const auto terms = kernels::update_terms(rule, args);
    const auto loop = kernels::update_loop(rule.kind);
    for_blocks(ids, [&](const IdPage& page, RowBlock* found) {
      auto* block = ensure(found, page);
      const auto to = packed(block);
      for_runs(block->bits, page.bits, [&](uint32_t rank, uint32_t rows) {
        auto run = terms;
        run.count = rows * options_.width;
        run.gradient_sum = gradient_sum;
        run.in = run.out = to.values + rank * options_.width;
        for (uint32_t slot = 0; slot < options_.slots; ++slot)
          run.state_in[slot] = run.state_out[slot] =
            run.out + (slot + 1) * to.rows * options_.width;
        loop(run);
        gradient_sum += run.count;
        if (memory_.shape().counted)
          for (auto row = rank; row < rank + rows; ++row)
            to.touched[row] = kernels::touched_at(to.touched[row],
                                                  version_ + 1);
      });
    });
  }
  ++version_;
}

} // namespace troupe
