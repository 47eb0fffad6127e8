#include "actors/compute/evaluated_rows.hpp"

#include "actors/job/row_words.hpp"
#include "actors/job/shard_tables.hpp"
#include "kernels/base/require.hpp"
#include "kernels/table/compact_graph.hpp"

#include <algorithm>
#include <bit>
#include <utility>

namespace troupe {
namespace {

/// All that samples have; of those that are left in their files once each.
std::vector<int32_t> ids_of(const Dataset& data) {
  if (!data.tokens.empty())
    return data.tokens;
  if (!data.in_files || !data.ids.empty())
    return data.ids;
  constexpr size_t many = size_t{1} << 20;
  const auto wide = size_t{data.shape.ids};
  std::vector<int32_t> ids;
  size_t known = 0;
  for (uint64_t i = 0; i < data.samples(); ++i) {
    ids.resize(ids.size() + wide);
    data.in_files->read_ids(data.place(i), ids.data() + ids.size() - wide);
    if (ids.size() < known + many)
      continue;
    std::sort(ids.begin(), ids.end());
    ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
    known = ids.size();
  }
  return ids;
}

/// All ids, and -1 nowhere: as bits of their pages, which are few where ids lie
/// close and as many as ids where they do not.
IdPages pages_of_all(std::vector<int32_t> ids) {
  std::erase(ids, -1);
  std::sort(ids.begin(), ids.end());
  IdPages pages;
  for (auto id : ids) {
    const auto page = static_cast<uint64_t>(id) / page_ids;
    if (pages.empty() || pages.back().page != page)
      pages.push_back({page, 0});
    pages.back().bits |= uint64_t{1} << (id % page_ids);
  }
  return pages;
}

} // namespace

EvaluatedRows::EvaluatedRows(const Job& job, const Dataset& data)
  : job_(job), pages_(pages_of_all(ids_of(data))), count_(count_ids(pages_)) {
  uint32_t place = 0;
  for (const auto& page : pages_) {
    first_.push_back(place);
    place += page.count();
  }
}

std::optional<TensorView> EvaluatedRows::wanted(const Slice& slice) const {
  IdPages ids;
  for (const auto& page : pages_)
    if (partition_of(page.page, slice.partitions) == slice.partition)
      ids.push_back(page);
  const auto bytes = encode_pages(ids);
  const auto width = row_width(job_, slice);
  if (payload_words(bytes.size(), 0, width) * sizeof(float)
      > TensorView::max_bytes)
    return std::nullopt;
  return RowWords{bytes, 0, width}.view();
}

Graph EvaluatedRows::graph() const {
  return compact_graph(job_.graph, job_.tables, std::max<uint64_t>(1, count_));
}

void EvaluatedRows::renumber(int32_t* ids, size_t count) const {
  for (size_t i = 0; i < count; ++i) {
    if (ids[i] == -1)
      continue;
    const auto number = static_cast<uint64_t>(ids[i]) / page_ids;
    const auto at = std::lower_bound(pages_.begin(), pages_.end(), number,
                                     [](const IdPage& x, uint64_t page) {
                                       return x.page < page;
                                     });
    kernels::require(at != pages_.end() && at->page == number,
                     "an id that the evaluation does not have");
    ids[i] = static_cast<int32_t>(
      first_[static_cast<size_t>(at - pages_.begin())]
      + rank_in(at->bits, static_cast<uint32_t>(ids[i]) % page_ids));
  }
}

void EvaluatedRows::initialise(uint32_t variable, float* table) const {
  const auto& shape = job_.graph.parameters[variable].shape;
  const auto width = elements(shape) / shape.front();
  for_each_id(pages_, [&](uint64_t id) {
    troupe::initialize(job_.graph, job_.options.seed, variable, id * width,
                       table, width);
    table += width;
  });
}

void EvaluatedRows::put(const Slice& slice, const TensorView& chunk,
                        float* table) const {
  const auto width = row_width(job_, slice);
  const auto copy_width = row_copy_width(job_, slice);
  const auto rows = read_payload(chunk.span(), copy_width);
  if (!rows)
    return;
  const auto* row = rows->values;
  size_t at = 0;
  for (const auto& page : rows->pages) {
    while (at < pages_.size() && pages_[at].page < page.page)
      ++at;
    const bool read = at < pages_.size() && pages_[at].page == page.page;
    const auto bits = read ? pages_[at].bits : 0;
    for (auto left = page.bits; left != 0; left &= left - 1) {
      const auto bit = static_cast<uint32_t>(std::countr_zero(left));
      if ((bits >> bit & 1) != 0)
        std::copy_n(row, width,
                    table + (first_[at] + rank_in(bits, bit)) * width);
      row += copy_width;
    }
  }
}

} // namespace troupe
