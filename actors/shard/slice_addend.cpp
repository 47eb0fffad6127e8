#include "actors/shard/slice_addend.hpp"

#include "actors/job/row_words.hpp"
#include "actors/job/shard_tables.hpp"
#include "kernels/base/require.hpp"
#include "kernels/cpu/vector_loops.hpp"

#include <algorithm>
#include <utility>

namespace troupe {

Addend addend_of(const Job& job, const Slice& slice, TensorView values,
                 std::shared_ptr<const RowList> known) {
  if (!slice.sparse() || values.size() == 0)
    return {std::move(values)};
  const auto width = row_width(job, slice);
  if (!known) {
    auto rows = read_payload(values.span(), width);
    kernels::require(rows.has_value(), "pushed rows that are none");
    known = std::make_shared<const RowList>(std::move(rows->pages));
  }
  kernels::require(values_in(values.span(), width, known->count()) != nullptr,
                   "pushed rows that are not those of their ids");
  return {std::move(values), std::move(known)};
}

const float* row_values(const Job& job, const Slice& slice,
                        const Addend& rows) {
  return rows.values.data() + rows.values.size()
         - rows.ids->count() * row_width(job, slice);
}

Addend sum_rows(const Job& job, const Slice& slice, const Addend& left,
                const Addend& right) {
  const auto width = row_width(job, slice);
  const auto* x = row_values(job, slice, left);
  const auto* y = row_values(job, slice, right);
  if (left.ids == right.ids || left.ids->pages() == right.ids->pages()) {
    OutgoingWords sum{left.ids->count() * width, nullptr};
    add(x, y, sum.data(), left.ids->count() * width);
    return {std::move(sum).view(), left.ids};
  }
  auto both = std::make_shared<const RowList>(
    united(left.ids->pages(), right.ids->pages()));
  OutgoingWords sum{both->count() * width, nullptr};
  sum_rows({left.ids->pages(), x}, {right.ids->pages(), y}, width,
           both->pages(), sum.data());
  return {std::move(sum).view(), std::move(both)};
}

TensorView whole_payload(const Job& job, const Slice& slice,
                         const Addend& rows) {
  const auto width = row_width(job, slice);
  if (rows.empty())
    return {};
  if (const auto said = ids_said(rows.values.span(), width);
      said && said->here
      && values_in(rows.values.span(), width, rows.ids->count()) != nullptr)
    return rows.values;
  const auto ids = encode_pages(rows.ids->pages());
  RowWords whole{ids, rows.ids->count(), width, nullptr, name_of(ids)};
  std::copy_n(row_values(job, slice, rows), rows.ids->count() * width,
              whole.values());
  return std::move(whole).view();
}

} // namespace troupe
