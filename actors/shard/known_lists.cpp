#include "actors/shard/known_lists.hpp"

#include "actors/job/shard_tables.hpp"
#include "kernels/table/row_payload.hpp"

#include <utility>

namespace troupe {

KnownLists::Said KnownLists::pulled(const Job& job, const Slice& slice,
                                    const RowPull& pull) {
  const auto said = ids_said(pull.ids.span(), row_width(job, slice));
  auto& lists = lists_[pull.worker];
  if (said && !said->here) {
    const auto* known = lists.use(said->name);
    return {known == nullptr ? nullptr : *known, true};
  }
  auto ids = wanted_rows(job, slice, pull);
  if (!ids)
    return {};
  auto list = std::make_shared<const RowList>(std::move(*ids));
  if (said && said->name)
    lists.put(said->name, list);
  return {std::move(list), false};
}

KnownLists::Said KnownLists::pushed(const Job& job, const Slice& slice,
                                    const TensorView& values) const {
  const auto said = ids_said(values.span(), row_width(job, slice));
  if (!said || !said->name)
    return {};
  for (const auto& [worker, lists] : lists_)
    if (const auto* known = lists.find(said->name))
      return {*known, !said->here};
  return {nullptr, !said->here};
}

} // namespace troupe
