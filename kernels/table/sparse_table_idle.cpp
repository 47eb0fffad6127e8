#include "kernels/table/sparse_table.hpp"

#include <algorithm>

// Updates that rows have without a gradient, made up later.

namespace troupe {

using kernels::LateRows;

namespace {

/// Runs of rows that are found before any is made up.
constexpr size_t max_late = 4096;

} // namespace

template <class Each>
void SparseTable::for_rows(const RowList& ids, Version version,
                           Each each) const {
  const auto old = version == Version::before ? old_pages()
                                              : std::vector<OldPage>{};
  auto at = old.begin();
  size_t place = 0;
  blocks_.for_all_pages(ids, [&](const IdPage& page, PageRows there,
                                 const PackedRows& rows) {
    at = std::lower_bound(at, old.end(), page.page,
                          [](const OldPage& x, uint64_t number) {
                            return x.page < number;
                          });
    const auto older = at != old.end() && at->page == page.page ? at->bits : 0;
    for (auto left = page.bits; left != 0; left &= left - 1, ++place) {
      const auto bit = static_cast<uint32_t>(std::countr_zero(left));
      const bool undone = (older >> bit & 1) != 0;
      const auto& here = undone ? at->existed : there;
      if ((here.bits >> bit & 1) != 0)
        each(place, undone ? at->rows : rows,
             here.rank + rank_in(here.bits, bit));
    }
  });
}

/// What was read into `out`, `stride` floats a row, lies there as it was found.
void SparseTable::make_up(const RowList& ids, Version version, float* out,
                          size_t stride, uint32_t runs) const {
  if (!missed_.any())
    return;
  const auto wanted = version == Version::newest ? version_ : version_ - 1;
  const auto width = options_.width;
  std::vector<LateRows> late;
  for_rows(ids, version,
           [&](size_t place, const PackedRows& rows, uint32_t rank) {
             if (missed_.lacks(rows.words[rank], wanted))
               missed_.add(late, {rows.words[rank], rows.values + rank * width,
                                  rows.rows * width, out + place * stride,
                                  width, width});
             if (late.size() == max_late) {
               missed_.make_up(late, wanted, runs);
               late.clear();
             }
           });
  missed_.make_up(late, wanted, runs);
}

/// In place: the undo record has them.
void SparseTable::bring_to(uint64_t version, const RowList& ids) {
  const auto width = options_.width;
  std::vector<LateRows> late;
  const auto flush = [&] {
    missed_.make_up(late, version, 1 + options_.slots);
    late.clear();
  };
  for_rows(ids, Version::newest,
           [&](size_t, const PackedRows& rows, uint32_t rank) {
             auto& had = rows.words[rank];
             if (!missed_.lacks(had, version))
               return;
             auto* values = rows.values + rank * width;
             missed_.add(late, {had, values, rows.rows * width, values,
                                rows.rows * width, width});
             had = version;
             if (late.size() == max_late)
               flush();
           });
  flush();
}

/// The rows that this update brings along.
RowList SparseTable::sweep() {
  // One that followed has swept nothing for long.
  constexpr uint64_t max_prepared = 4 * kernels::RowSweep::cycle;
  const auto end = version_ + 1;
  missed_.prepare(std::max(sweep_.oldest(), end - std::min(end, max_prepared)),
                  end);
  auto page = sweep_.page();
  RowList rows{blocks_.following(page, kernels::RowSweep::share(this->rows()))};
  sweep_.passed(page, version_ + 1);
  return rows;
}

/// All rows have had so many updates.
void SparseTable::number(uint64_t version) {
  for_rows(RowList{present()}, Version::newest,
           [&](size_t, const PackedRows& rows, uint32_t rank) {
             rows.words[rank] = version;
           });
  sweep_.begin(version);
}

uint64_t SparseTable::least_number() const {
  auto least = version_;
  for_rows(RowList{present()}, Version::newest,
           [&](size_t, const PackedRows& rows, uint32_t rank) {
             if (missed_.lacks(rows.words[rank], version_))
               least = std::min(least, rows.words[rank]);
           });
  return least;
}

} // namespace troupe
