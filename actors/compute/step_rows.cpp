#include "actors/compute/step_rows.hpp"

#include "actors/job/row_words.hpp"
#include "actors/job/shard_tables.hpp"
#include "kernels/base/error.hpp"
#include "kernels/base/require.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <limits>
#include <utility>

namespace troupe {
namespace {

/// Calls visit(id) for each id of these samples; of text, of their windows.
template <class Visit>
void for_ids(const Dataset& data, const StepRows::Indices& samples,
             Visit visit) {
  for (uint64_t row : samples) {
    if (!data.tokens.empty()) {
      const auto* window = data.tokens.data() + row * data.stride;
      std::for_each(window, window + data.window, visit);
      continue;
    }
    const auto wide = uint64_t{data.shape.ids};
    if (data.in_files && data.ids.empty()) {
      thread_local std::vector<int32_t> own;
      own.resize(wide);
      data.in_files->read_ids(data.place(row), own.data());
      for (auto id : own)
        if (id != -1)
          visit(id);
      continue;
    }
    const auto begin = data.starts.empty() ? row * wide : data.starts[row];
    const auto end = data.starts.empty() ? begin + wide : data.starts[row + 1];
    for (auto i = begin; i < end; ++i)
      if (data.ids[i] != -1)
        visit(data.ids[i]);
  }
}

int64_t smallest_vocabulary(const Job& job) {
  auto smallest = std::numeric_limits<int64_t>::max();
  for (auto table : job.tables)
    smallest = std::min<int64_t>(
      smallest,
      static_cast<int64_t>(job.graph.parameters[table].shape.front()));
  return smallest;
}

/// Sorts numbers from 0 on, digit by digit where there are many.
void sort_ids(std::vector<int32_t>& ids) {
  constexpr size_t few = 2048;
  constexpr uint32_t digit_bits = 11;
  if (std::is_sorted(ids.begin(), ids.end()))
    return;
  if (ids.size() < few)
    return std::sort(ids.begin(), ids.end());
  const auto highest =
    static_cast<uint32_t>(*std::max_element(ids.begin(), ids.end()));
  std::vector<int32_t> other(ids.size());
  for (uint32_t shift = 0; shift < 32 && highest >> shift != 0;
       shift += digit_bits) {
    std::array<uint32_t, 1 << digit_bits> next{};
    const auto digit = [shift](int32_t id) {
      return static_cast<uint32_t>(id) >> shift & ((1 << digit_bits) - 1);
    };
    for (auto id : ids)
      ++next[digit(id)];
    uint32_t sum = 0;
    for (auto& count : next)
      sum += std::exchange(count, sum);
    for (auto id : ids)
      other[next[digit(id)]++] = id;
    ids.swap(other);
  }
}

} // namespace

StepRows::StepRows(const Job& job, const Dataset& data,
                   const std::vector<RankRange>& nodes,
                   const std::vector<Indices>& samples,
                   std::shared_ptr<LinkMemory> memory,
                   std::shared_ptr<ToldLists> told)
  : job_(job),
    memory_(std::move(memory)),
    told_(std::move(told)),
    nodes_(nodes),
    wanted_(job.plan.slices.size()) {
  find_pages(sorted_ids(data, samples));
  for (const auto& slice : job.plan.slices) {
    if (!slice.sparse())
      continue;
    if (std::none_of(cuts_.begin(), cuts_.end(), [&](const Cut& x) {
          return x.partitions == slice.partitions;
        }))
      cut(slice.partitions);
    const auto& part = cut_of(slice).parts[slice.partition];
    const auto width = row_width(job, slice);
    if (part.rows > 0)
      wanted_[slice.id] = {
        RowWords{part.bytes, 0, width, memory_.get(), part.name}.view(),
        RowWords{part.name, 0, width, memory_.get()}.view()};
  }
  if (nodes.size() > 1)
    mark(data, samples);
}

std::vector<int32_t>
StepRows::sorted_ids(const Dataset& data,
                     const std::vector<Indices>& samples) const {
  const auto vocabulary = smallest_vocabulary(job_);
  std::vector<int32_t> ids;
  for (const auto& node : samples)
    for_ids(data, node, [&](int32_t id) {
      if (id < 0 || id >= vocabulary)
        throw InputError("a sample has the id " + std::to_string(id)
                         + ", outside a table's " + std::to_string(vocabulary)
                         + " rows; give ids from 0, -1 for an absent one");
      ids.push_back(id);
    });
  sort_ids(ids);
  return ids;
}

void StepRows::find_pages(const std::vector<int32_t>& ids) {
  for (auto id : ids) {
    const auto page = static_cast<uint64_t>(id) / page_ids;
    if (pages_.empty() || pages_.back().page != page)
      pages_.push_back({page, 0});
    pages_.back().bits |= uint64_t{1} << (id % page_ids);
  }
  // Some two buckets a page.
  const auto last = pages_.empty() ? 0 : pages_.back().page;
  while (last >> shift_ > 2 * pages_.size())
    ++shift_;
  starts_.assign((last >> shift_) + 2, 0);
  for (const auto& page : pages_)
    ++starts_[(page.page >> shift_) + 1];
  for (size_t i = 1; i < starts_.size(); ++i)
    starts_[i] += starts_[i - 1];
}

uint32_t StepRows::page_of(int32_t id) const {
  const auto page = static_cast<uint64_t>(id) / page_ids;
  const auto bucket = page >> shift_;
  kernels::require(id >= 0 && bucket + 1 < starts_.size(),
                   "an id that its step does not have");
  auto begin = starts_[bucket];
  auto end = starts_[bucket + 1];
  while (end - begin > 4) {
    const auto middle = begin + (end - begin) / 2;
    (pages_[middle].page <= page ? begin : end) = middle;
  }
  while (begin < end && pages_[begin].page != page)
    ++begin;
  kernels::require(begin < end, "an id that its step does not have");
  return begin;
}

uint32_t StepRows::place_of(int32_t id) const {
  const auto at = page_of(id);
  const auto bit = static_cast<uint32_t>(id) % page_ids;
  const auto bits = pages_[at].bits;
  kernels::require((bits >> bit & 1) != 0, "an id that its step does not have");
  return first_[at] + rank_in(bits, bit);
}

void StepRows::mark(const Dataset& data, const std::vector<Indices>& samples) {
  for (const auto& node : samples) {
    auto& touched = touched_.emplace_back(pages_.size());
    for_ids(data, node, [&](int32_t id) {
      touched[page_of(id)] |= uint64_t{1} << (id % page_ids);
    });
  }
}

void StepRows::cut(uint32_t partitions) {
  Cut made{partitions, cuts_.empty(), std::vector<Part>(partitions)};
  for (uint32_t at = 0; at < pages_.size(); ++at) {
    auto& part = made.parts[partition_of(pages_[at].page, partitions)];
    part.pages.push_back(at);
    part.rows += pages_[at].count();
  }
  IdPages ids;
  for (auto& part : made.parts) {
    ids.clear();
    for (auto at : part.pages)
      ids.push_back(pages_[at]);
    part.bytes = encode_pages(ids);
    part.name = name_of(part.bytes);
  }
  if (made.side_by_side)
    number(made);
  cuts_.push_back(std::move(made));
}

/// Rows get places part by part, in order of their ids.
void StepRows::number(const Cut& by) {
  first_.resize(pages_.size());
  uint32_t place = 0;
  for (const auto& part : by.parts)
    for (auto at : part.pages) {
      first_[at] = place;
      place += pages_[at].count();
    }
  count_ = place;
}

const StepRows::Cut& StepRows::cut_of(const Slice& slice) const {
  for (const auto& cut : cuts_)
    if (cut.partitions == slice.partitions)
      return cut;
  kernels::require(false, "a part of no table");
  return cuts_.front();
}

const TensorView& StepRows::pull(const Slice& slice) const {
  const auto& wanted = wanted_[slice.id];
  const auto& part = cut_of(slice).parts[slice.partition];
  const bool known = told_ && part.rows > 0
                     && told_->pulls(slice.id, part.name);
  return known ? wanted.named : wanted.whole;
}

bool StepRows::put(const Slice& slice, const TensorView& values,
                   float* parameters) const {
  const auto& cut = cut_of(slice);
  const auto& part = cut.parts[slice.partition];
  const auto width = row_width(job_, slice);
  if (values.size() != part.rows * width)
    return false;
  if (part.rows == 0)
    return true;
  const auto* from = values.data();
  auto* table = parameters + job_.flat_offset(slice);
  if (cut.side_by_side) {
    std::memcpy(table + first_[part.pages.front()] * width, from,
                values.bytes());
    return true;
  }
  for (auto at : part.pages) {
    const auto count = pages_[at].count() * width;
    copy_floats(from, table + first_[at] * width, count);
    from += count;
  }
  return true;
}

void StepRows::renumber(int32_t* ids, size_t count) const {
  for (size_t i = 0; i < count; ++i)
    if (ids[i] != -1)
      ids[i] = static_cast<int32_t>(place_of(ids[i]));
}

TensorView StepRows::pushed(const Slice& slice, const NodeSum& node) const {
  const auto& cut = cut_of(slice);
  const auto& part = cut.parts[slice.partition];
  if (!node.sum || part.rows == 0)
    return {};
  const auto at = std::find(nodes_.begin(), nodes_.end(), node.node);
  kernels::require(at != nodes_.end(), "a node of another step");
  const auto* table = node.sum->data() + job_.flat_offset(slice);
  if (!touched_.empty())
    return pushed_of(slice, part,
                     touched_[static_cast<size_t>(at - nodes_.begin())], table);
  const auto width = row_width(job_, slice);
  auto rows = told_ && told_->knows(slice.id, part.name)
                ? RowWords{part.name, part.rows, width, memory_.get()}
                : RowWords{part.bytes, part.rows, width, memory_.get(),
                           part.name};
  auto* to = rows.values();
  if (cut.side_by_side) {
    std::memcpy(to, table + first_[part.pages.front()] * width,
                part.rows * width * sizeof(float));
    return std::move(rows).view();
  }
  for (auto page : part.pages) {
    const auto count = pages_[page].count() * width;
    copy_floats(table + first_[page] * width, to, count);
    to += count;
  }
  return std::move(rows).view();
}

/// Those rows of a part that one of several nodes touched.
TensorView StepRows::pushed_of(const Slice& slice, const Part& part,
                               const std::vector<uint64_t>& touched,
                               const float* table) const {
  IdPages ids;
  for (auto at : part.pages)
    if (touched[at] != 0)
      ids.push_back({pages_[at].page, touched[at]});
  if (ids.empty())
    return {};
  const auto width = row_width(job_, slice);
  RowWords rows{encode_pages(ids), count_ids(ids), width, memory_.get()};
  auto* to = rows.values();
  for (auto at : part.pages)
    for (auto left = touched[at]; left != 0; left &= left - 1, to += width) {
      const auto place = first_[at]
                         + rank_in(pages_[at].bits, static_cast<uint32_t>(
                                                      std::countr_zero(left)));
      copy_floats(table + place * width, to, width);
    }
  return std::move(rows).view();
}

std::vector<StepRows::Indices> samples_of(Sampling& sampling, uint64_t step,
                                          const std::vector<RankRange>& nodes) {
  std::vector<StepRows::Indices> samples(nodes.size());
  StepRows::Indices rows;
  for (size_t i = 0; i < nodes.size(); ++i)
    for (auto rank = nodes[i].lo; rank < nodes[i].hi; ++rank) {
      sampling.indices(step, rank, rows);
      samples[i].insert(samples[i].end(), rows.begin(), rows.end());
    }
  return samples;
}

} // namespace troupe
