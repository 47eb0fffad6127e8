#include "actors/stage/inbox.hpp"

#include <algorithm>
#include <utility>

namespace troupe {
namespace {

constexpr uint64_t run_elements = TensorView::max_bytes / sizeof(float);

/// Runs of one memory are one already; else they are copied together.
TensorView joined(const std::vector<TensorView>& runs, uint64_t total) {
  if (runs.size() == 1)
    return runs.front();
  auto values = std::make_shared_for_overwrite<float[]>(total);
  auto* at = values.get();
  for (const auto& run : runs)
    at = std::copy_n(run.data(), run.size(), at);
  const auto* first = values.get();
  return {std::move(values), first, total};
}

} // namespace

bool StageInbox::put(const StageValues& run, uint64_t total) {
  auto& crossing = crossings_[{run.step, run.stream, run.virtual_rank}];
  const bool whole = !crossing.runs.empty() && crossing.elements == total;
  if (whole || run.begin != crossing.elements
      || run.values.size() > total - crossing.elements
      || (run.values.size() == 0 && total > 0))
    return false;
  crossing.total = total;
  crossing.elements += run.values.size();
  crossing.runs.push_back(run.values);
  return true;
}

bool StageInbox::has(uint64_t step, StageStream stream, uint32_t rank) const {
  const auto found = crossings_.find({step, stream, rank});
  return found != crossings_.end() && !found->second.runs.empty()
         && found->second.elements >= found->second.total;
}

std::optional<TensorView> StageInbox::take(uint64_t step, StageStream stream,
                                           uint32_t rank) {
  if (!has(step, stream, rank))
    return std::nullopt;
  const auto found = crossings_.find({step, stream, rank});
  auto values = joined(found->second.runs, found->second.total);
  crossings_.erase(found);
  return values;
}

std::vector<StageValues> runs_of(const Fence& fence, uint64_t step,
                                 StageStream stream, uint32_t rank,
                                 const TensorView& values) {
  std::vector<StageValues> runs;
  for (uint64_t at = 0; at < values.size() || runs.empty();
       at += run_elements) {
    const auto count = std::min<uint64_t>(run_elements, values.size() - at);
    runs.push_back({fence, step, rank, stream, at, values.part(at, count)});
  }
  return runs;
}

} // namespace troupe
