#include "kernels/table/sparse_table.hpp"

#include "kernels/base/require.hpp"
#include "kernels/optimizer/terms.hpp"
#include "kernels/table/touches.hpp"

#include <algorithm>
#include <cstring>

namespace troupe {

using kernels::RowBlock;

// --- reading -----------------------------------------------------------------

/// Copies the values of a page's ids out: from where they are, else initial.
void SparseTable::read_rows(const IdPage& ids, PageRows there,
                            const PackedRows& from, float*& out) const {
  const auto width = options_.width;
  const auto wanted = ids.bits;
  const auto* rows = from.values + there.rank * width;
  if ((wanted & there.bits) == wanted) {
    for_row_runs(there.bits, wanted, [&](uint32_t rank, uint32_t count) {
      std::memcpy(out, rows + rank * width, count * width * sizeof(float));
      out += count * width;
    });
    return;
  }
  for (auto left = wanted; left != 0; left &= left - 1, out += width) {
    const auto bit = static_cast<uint32_t>(std::countr_zero(left));
    if ((there.bits >> bit & 1) != 0)
      std::memcpy(out, rows + rank_in(there.bits, bit) * width,
                  width * sizeof(float));
    else
      options_.initial(ids.page * page_ids + bit, 1, out);
  }
}

void SparseTable::read(const RowList& ids, float* out) const {
  auto* next = out;
  blocks_.for_visits(ids, [&](const RowList::Visit& visit, RowBlock* block) {
    const auto from = block == nullptr ? PackedRows{} : blocks_.packed(block);
    if (visit.whole) {
      const auto count = from.rows * options_.width;
      std::memcpy(next, from.values, count * sizeof(float));
      next += count;
      return;
    }
    RowBlocks::for_pages(visit, ids, block,
                         [&](const IdPage& page, PageRows there) {
                           read_rows(page, there, from, next);
                         });
  });
  make_up(ids, Version::newest, out, options_.width, 1);
}

void SparseTable::read_state(const RowList& ids, float* values,
                             float* state) const {
  kernels::require(!missed_.any(), "norms over rows that lack updates");
  const auto width = options_.width;
  const auto stride = ids.count() * width;
  std::fill_n(state, options_.slots * stride, 0.0f);
  blocks_.for_all_pages(ids, [&](const IdPage& page, PageRows there,
                                 const PackedRows& from) {
    read_rows(page, there, from, values);
    for (auto left = page.bits; left != 0; left &= left - 1, state += width) {
      const auto bit = static_cast<uint32_t>(std::countr_zero(left));
      if ((there.bits >> bit & 1) == 0)
        continue;
      const auto rank = there.rank + rank_in(there.bits, bit);
      for (uint32_t slot = 0; slot < options_.slots; ++slot)
        std::copy_n(from.values + ((slot + 1) * from.rows + rank) * width,
                    width, state + slot * stride);
    }
  });
}

void SparseTable::read_before(const RowList& ids, float* out) const {
  auto* next = out;
  const auto old = old_pages();
  auto at = old.begin();
  blocks_.for_all_pages(ids, [&](const IdPage& page, PageRows there,
                                 const PackedRows& rows) {
    at = std::lower_bound(at, old.end(), page.page,
                          [](const OldPage& x, uint64_t number) {
                            return x.page < number;
                          });
    if (at == old.end() || at->page != page.page) {
      read_rows(page, there, rows, next);
      return;
    }
    for (auto left = page.bits; left != 0; left &= left - 1) {
      const IdPage one{page.page, left & -left};
      if ((at->bits & one.bits) != 0)
        read_rows(one, at->existed, at->rows, next);
      else
        read_rows(one, there, rows, next);
    }
  });
  make_up(ids, Version::before, out, options_.width, 1);
}

IdPages SparseTable::present(const RowList& ids) const {
  IdPages pages;
  blocks_.for_all_pages(ids, [&](const IdPage& page, PageRows there,
                                 const PackedRows&) {
    if ((page.bits & there.bits) != 0)
      pages.push_back({page.page, page.bits & there.bits});
  });
  return pages;
}

// --- updates -----------------------------------------------------------------

void SparseTable::update(const OptimizerOptions& rule, const UpdateArgs& moment,
                         const RowList& ids, const float* gradient_sum) {
  kernels::require(state_slots(rule.kind) == options_.slots,
                   "a table with the state of another rule");
  kernels::require(moment.role == ParameterRole::trained,
                   "a statistic has no rows");
  if (missed_.any()) {
    const auto along = sweep();
    write_undo(RowList{united(ids.pages(), along.pages())}, true);
    bring_to(version_, ids);
    bring_to(version_ + 1, RowList{without(along.pages(), ids.pages())});
  } else if (const RowList evicted{due(ids.pages())}; evicted.count() == 0) {
    write_undo(ids, true);
  } else {
    write_undo(RowList{united(ids.pages(), evicted.pages())}, false);
    blocks_.drop(evicted);
    evicted_ += evicted.count();
  }
  if (ids.count() > 0)
    apply(rule, moment, ids, gradient_sum);
  ++version_;
}

void SparseTable::apply(const OptimizerOptions& rule, UpdateArgs moment,
                        const RowList& ids, const float* gradient_sum) {
  blocks_.make(ids);
  moment.gradient_sum = moment.in = moment.state_in = gradient_sum;
  moment.count = 0;
  const auto terms = kernels::update_terms(rule, moment);
  const auto loop = kernels::update_loop(rule.kind);
  const auto width = options_.width;
  const auto apply_run = [&](const PackedRows& to, uint32_t rank,
                             uint32_t rows) {
    auto run = terms;
    run.count = rows * width;
    run.gradient_sum = gradient_sum;
    run.in = run.out = to.values + rank * width;
    for (uint32_t slot = 0; slot < options_.slots; ++slot)
      run.state_in[slot] = run.state_out[slot] = run.out
                                                 + (slot + 1) * to.rows * width;
    loop(run);
    gradient_sum += run.count;
    if (missed_.any())
      std::fill_n(to.words + rank, rows, version_ + 1);
    else if (options_.eviction.any())
      for (auto row = rank; row < rank + rows; ++row)
        to.words[row] = kernels::touched_at(to.words[row], version_ + 1);
  };
  blocks_.for_visits(ids, [&](const RowList::Visit& visit, RowBlock* block) {
    const auto to = blocks_.packed(block);
    if (visit.whole) {
      apply_run(to, 0, to.rows);
      return;
    }
    RowBlocks::for_pages(
      visit, ids, block, [&](const IdPage& page, PageRows there) {
        for_row_runs(there.bits, page.bits, [&](uint32_t rank, uint32_t rows) {
          apply_run(to, there.rank + rank, rows);
        });
      });
  });
}

// --- eviction ----------------------------------------------------------------

/// The rows to give up before the update to the next version, which is about to
/// touch `touched`: a function of what the rows hold alone.
IdPages SparseTable::due(std::span<const IdPage> touched) const {
  const auto& limit = options_.eviction;
  const auto max_rows = limit.max_bytes / blocks_.shape().row_bytes();
  const bool full = limit.max_bytes > 0 && rows() > max_rows;
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
  std::vector<Row> rows_left;
  std::vector<uint64_t> gone;
  const RowList others{without(present(), touched)};
  blocks_.for_all_pages(others, [&](const IdPage& page, PageRows there,
                                    const PackedRows& from) {
    for_each_id({&page, 1}, [&](uint64_t id) {
      const auto bit = static_cast<uint32_t>(id % page_ids);
      const auto word = from.words[there.rank + rank_in(there.bits, bit)];
      const bool frequent = limit.kept_count > 0
                            && kernels::touches(word) >= limit.kept_count;
      if (looks && !frequent
          && version_ - kernels::last_touch(word) >= limit.idle_steps)
        gone.push_back(id);
      else
        rows_left.push_back({word | uint64_t{frequent} << 63, id});
    });
  });
  // An eighth more than needed, so that not every step has to look.
  const auto target = max_rows - max_rows / 8;
  if (full && rows() - gone.size() > target) {
    const auto count = std::min<uint64_t>(rows() - gone.size() - target,
                                          rows_left.size());
    const auto end = rows_left.begin() + static_cast<ptrdiff_t>(count);
    std::nth_element(rows_left.begin(), end - (count > 0 ? 1 : 0),
                     rows_left.end());
    for (auto at = rows_left.begin(); at != end; ++at)
      gone.push_back(at->id);
  }
  std::sort(gone.begin(), gone.end());
  return pages_of(gone);
}

} // namespace troupe
