#include "actors/replica/memory.hpp"

#include "actors/job/beginning.hpp"
#include "kernels/base/require.hpp"

#include <algorithm>
#include <utility>

namespace troupe {
namespace {

constexpr uint64_t page = 1024; ///< elements

/// Arrays begin at cache lines, and not all at the same place of a page: loads
/// would wait for stores that only look alike (4 KiB aliasing). No two have a
/// page in common, since devices pin pages.
uint64_t stride_of(uint64_t elements) {
  constexpr uint64_t line = 16;
  return (elements + line - 1) / line * line + page + 5 * line;
}

} // namespace

FlatArrays::FlatArrays(const Job& job, uint32_t arrays, bool shared)
  : stride_(stride_of(job.layout.total)) {
  if (shared) {
    segment_.emplace(arrays * stride_ * sizeof(float));
    first_ = segment_->allocate(arrays * stride_);
  } else {
    own_ = Buffer{page + arrays * stride_};
    own_.fill(0);
    first_ = own_.data() + page;
  }
}

FlatArrays::FlatArrays(const Job& job, uint32_t arrays, Memory memory)
  : memory_(std::move(memory)), stride_(stride_of(job.layout.total)) {
  taken_ = memory_(arrays * stride_);
  first_ = taken_.get();
}

float* FlatArrays::more(uint32_t array) {
  kernels::require(!segment_, "a memory file does not grow");
  if (memory_) {
    while (more_taken_.size() <= array)
      more_taken_.push_back(memory_(stride_));
    return more_taken_[array].get();
  }
  while (more_.size() <= array) {
    more_.emplace_back(page + stride_);
    more_.back().fill(0);
  }
  return more_[array].data() + page;
}

VariableBanks::VariableBanks(const Job& job, std::shared_ptr<FlatArrays> arrays,
                             uint32_t first, uint32_t banks)
  : arrays_(std::move(arrays)),
    first_(first),
    banks_(banks),
    slots_(state_slots(job.options.rule.kind)) {
  initialise(job, job.beginning.get());
}

uint32_t VariableBanks::arrays_of(const Job& job, uint32_t banks) {
  return banks * (1 + state_slots(job.options.rule.kind));
}

void VariableBanks::initialise(const Job& job, const Beginning* beginning) {
  const auto keeps = [&](uint32_t parameter) { // tables are with shards
    return std::ranges::find(job.tables, parameter) == job.tables.end();
  };
  if (beginning != nullptr) {
    version_ = beginning->step();
    auto arrays = all(version_);
    for (uint32_t i = 0; i < job.graph.parameters.size(); ++i)
      for (uint32_t run = 0; run < arrays.size() && keeps(i); ++run)
        beginning->read(i, run, 0,
                        {arrays[run] + job.layout.offsets[i],
                         job.graph.parameters[i].size()});
    return;
  }
  version_ = 0;
  auto arrays = all(0);
  for (auto* array : arrays)
    std::fill_n(array, job.layout.total, 0.0f);
  for (uint32_t i = 0; i < job.graph.parameters.size(); ++i)
    if (keeps(i))
      initialize(job.graph, job.options.seed, i, 0,
                 arrays[0] + job.layout.offsets[i],
                 job.graph.parameters[i].size());
}

float* VariableBanks::parameters(uint64_t version) const {
  const auto bank = static_cast<uint32_t>(version % banks_);
  return arrays_->at(first_ + bank * (1 + slots_));
}

float* VariableBanks::state(uint64_t version) const {
  return parameters(version) + stride();
}

std::vector<float*> VariableBanks::all(uint64_t version) const {
  std::vector<float*> arrays;
  for (uint32_t i = 0; i <= slots_; ++i)
    arrays.push_back(parameters(version) + i * stride());
  return arrays;
}

std::vector<SnapshotSlice>
snapshot_of(const Job& job, uint64_t job_id, const VariableBanks& variables,
            uint64_t version, uint64_t updates,
            const std::vector<uint32_t>& slices, SnapshotMemory memory) {
  std::vector<SnapshotSlice> result;
  const auto arrays = variables.all(version);
  for (auto id : slices) {
    const auto& slice = job.plan.slices[id];
    const auto at = job.flat_offset(slice);
    const auto view = [&](const float* array) {
      return memory == SnapshotMemory::lent
               ? TensorView{variables.arrays(), array + at, slice.count}
               : TensorView::copy({array + at, slice.count});
    };
    SnapshotSlice part{job_id, version, id, view(arrays[0]), {}};
    part.history = {updates, // as an owner's slice has them
                    version * job.options.virtual_ranks,
                    {}};
    for (size_t i = 1; i < arrays.size(); ++i)
      part.state.push_back(view(arrays[i]));
    result.push_back(std::move(part));
  }
  return result;
}

} // namespace troupe
