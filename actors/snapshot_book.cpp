#include "actors/snapshot_book.hpp"

#include <algorithm>

namespace troupe {

std::optional<Snapshot> SnapshotBook::add(const SnapshotSlice& slice) {
  const auto& slices = job_.plan.slices;
  if (slice.slice >= slices.size()
      || slice.values.size() != slices[slice.slice].count
      || slice.state.size() != state_slots(job_.options.rule.kind))
    return std::nullopt;
  for (const auto& slot : slice.state)
    if (slot.size() != slice.values.size())
      return std::nullopt;
  auto& partial = partial_[slice.version];
  if (partial.slices.empty()) {
    partial.slices.resize(slices.size());
    partial.present.resize(slices.size());
    partial.missing = slices.size();
  }
  if (partial.present[slice.slice])
    return std::nullopt;
  partial.present[slice.slice] = true;
  partial.slices[slice.slice] = slice;
  if (--partial.missing > 0)
    return std::nullopt;
  Snapshot whole{slice.version, std::move(partial.slices)};
  // Older ones can no longer become whole; this one stays marked as done.
  partial_.erase(partial_.begin(), partial_.find(slice.version));
  partial.slices.assign(slices.size(), {});
  return whole;
}

namespace {

template <class Pick>
std::vector<NamedTensor> gather(const Job& job, const Snapshot& snapshot,
                                const std::string& prefix, Pick pick) {
  std::vector<NamedTensor> tensors;
  for (const auto& variable : job.plan.variables)
    tensors.push_back({prefix + variable.name, variable.shape,
                       std::vector<float>(variable.size())});
  for (const auto& slice : job.plan.slices) {
    const TensorView& part = pick(snapshot.slices[slice.id]);
    std::copy(part.data(), part.data() + part.size(),
              tensors[slice.variable].values.begin()
                + static_cast<ptrdiff_t>(slice.offset));
  }
  return tensors;
}

} // namespace

std::vector<NamedTensor> weights_of(const Job& job, const Snapshot& snapshot) {
  return gather(job, snapshot, "",
                [](const SnapshotSlice& x) -> const TensorView& {
                  return x.values;
                });
}

std::vector<NamedTensor> state_of(const Job& job, const Snapshot& snapshot) {
  auto tensors = weights_of(job, snapshot);
  const auto kind = job.options.rule.kind;
  for (uint32_t slot = 0; slot < state_slots(kind); ++slot) {
    auto more = gather(job, snapshot, state_name(kind, slot) + "/",
                       [slot](const SnapshotSlice& x) -> const TensorView& {
                         return x.state[slot];
                       });
    std::move(more.begin(), more.end(), std::back_inserter(tensors));
  }
  // Step and data position follow from the version; exact up to 2^24 each.
  const auto version = snapshot.version;
  tensors.push_back({"step",
                     {2},
                     {static_cast<float>(version >> 24),
                      static_cast<float>(version & 0xffffff)}});
  return tensors;
}

} // namespace troupe
