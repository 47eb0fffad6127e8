#include "actors/step_rows.hpp"

#include "actors/shard_tables.hpp"
#include "kernels/error.hpp"
#include "kernels/random.hpp"
#include "kernels/require.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>

namespace troupe {
namespace {

/// Calls visit(id) for each id of the samples of a node's ranks.
template <class Visit>
void for_ids(const Job& job, const Dataset& data, uint64_t step, RankRange node,
             Visit visit) {
  auto sampling = job.sampling;
  std::vector<uint32_t> rows;
  for (auto rank = node.lo; rank < node.hi; ++rank) {
    sampling.indices(step, rank, rows);
    for (uint64_t row : rows) {
      const auto wide = uint64_t{data.shape.ids};
      const auto begin = data.starts.empty() ? row * wide : data.starts[row];
      const auto end = data.starts.empty() ? begin + wide
                                           : data.starts[row + 1];
      for (auto i = begin; i < end; ++i)
        if (data.ids[i] != -1)
          visit(data.ids[i]);
    }
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

} // namespace

StepRows::StepRows(const Job& job, const Dataset& data, uint64_t step,
                   const std::vector<RankRange>& nodes)
  : job_(job), vocabulary_(smallest_vocabulary(job)), nodes_(nodes) {
  slots_.resize(64);
  for (const auto& node : nodes)
    for_ids(job, data, step, node, [this](int32_t id) { add(id); });
  number();
  for (const auto& slice : job.plan.slices)
    if (slice.sparse()
        && std::none_of(cuts_.begin(), cuts_.end(), [&](const Cut& x) {
             return x.partitions == slice.partitions;
           }))
      cut(slice.partitions);
  if (nodes.size() < 2)
    return;
  for (const auto& node : nodes) {
    touched_.emplace_back(ids_.size());
    for_ids(job, data, step, node,
            [this](int32_t id) { touched_.back()[place_of(id)] = true; });
  }
}

StepRows::Slot& StepRows::slot(int32_t id) {
  const auto mask = slots_.size() - 1;
  auto at = kernels::mix(static_cast<uint64_t>(id)) & mask;
  while (slots_[at].id != -1 && slots_[at].id != id)
    at = (at + 1) & mask;
  return slots_[at];
}

void StepRows::add(int32_t id) {
  if (id < 0 || id >= vocabulary_)
    throw InputError("a sample has the id " + std::to_string(id)
                     + ", outside a table's " + std::to_string(vocabulary_)
                     + " rows; give ids from 0, -1 for an absent one");
  auto& its = slot(id);
  if (its.id == id)
    return;
  its.id = id;
  ids_.push_back(id);
  if (ids_.size() * 2 < slots_.size())
    return;
  slots_.assign(slots_.size() * 4, {});
  for (auto each : ids_)
    slot(each).id = each;
}

void StepRows::number() {
  std::sort(ids_.begin(), ids_.end());
  for (size_t i = 0; i < ids_.size(); ++i)
    slot(ids_[i]).place = static_cast<uint32_t>(i);
}

uint32_t StepRows::place_of(int32_t id) const {
  const auto& its = const_cast<StepRows*>(this)->slot(id);
  kernels::require(its.id == id, "an id that its step does not have");
  return its.place;
}

void StepRows::cut(uint32_t partitions) {
  cuts_.push_back({partitions, std::vector<Part>(partitions)});
  auto& parts = cuts_.back().parts;
  for (size_t begin = 0; begin < ids_.size();) {
    const auto page = static_cast<uint64_t>(ids_[begin]) / page_ids;
    auto& part = parts[partition_of(page, partitions)];
    part.pages.push_back({page, 0});
    for (; begin < ids_.size()
           && static_cast<uint64_t>(ids_[begin]) / page_ids == page;
         ++begin) {
      part.pages.back().bits |= uint64_t{1} << (ids_[begin] % page_ids);
      part.places.push_back(static_cast<uint32_t>(begin));
    }
  }
  for (auto& part : parts)
    part.bytes = encode_pages(part.pages);
}

const StepRows::Part& StepRows::part_of(const Slice& slice) const {
  for (const auto& cut : cuts_)
    if (cut.partitions == slice.partitions)
      return cut.parts[slice.partition];
  kernels::require(false, "a part of no table");
  return cuts_.front().parts.front();
}

TensorView StepRows::wanted(const Slice& slice) const {
  const auto& part = part_of(slice);
  if (part.places.empty())
    return {};
  const auto width = row_width(job_, slice);
  std::vector<float> words(payload_words(part.bytes.size(), 0, width));
  write_payload(part.bytes, width, words);
  return TensorView::copy(words);
}

bool StepRows::put(const Slice& slice, const TensorView& values,
                   float* parameters) const {
  const auto& places = part_of(slice).places;
  const auto width = row_width(job_, slice);
  if (values.size() != places.size() * width)
    return false;
  const auto* from = values.data();
  auto* table = parameters + job_.flat_offset(slice);
  for (auto place : places) {
    std::memcpy(table + place * width, from, width * sizeof(float));
    from += width;
  }
  return true;
}

void StepRows::renumber(int32_t* ids, size_t count) const {
  for (size_t i = 0; i < count; ++i)
    if (ids[i] != -1)
      ids[i] = static_cast<int32_t>(place_of(ids[i]));
}

TensorView StepRows::pushed(const Slice& slice, const NodeSum& node) const {
  if (!node.sum)
    return {};
  const auto& part = part_of(slice);
  const auto at = std::find(nodes_.begin(), nodes_.end(), node.node);
  kernels::require(at != nodes_.end(), "a node of another step");
  const std::vector<bool>* touched = nullptr;
  if (!touched_.empty())
    touched = &touched_[static_cast<size_t>(at - nodes_.begin())];
  IdPages pages;
  std::vector<uint32_t> places;
  size_t next = 0;
  for (const auto& page : part.pages) {
    uint64_t bits = 0;
    for (auto left = page.bits; left != 0; left &= left - 1) {
      const auto place = part.places[next++];
      if (touched != nullptr && !(*touched)[place])
        continue;
      bits |= left & -left;
      places.push_back(place);
    }
    if (bits != 0)
      pages.push_back({page.page, bits});
  }
  return copy_of_rows(job_, slice, pages, places,
                      node.sum->data() + job_.flat_offset(slice));
}

} // namespace troupe
