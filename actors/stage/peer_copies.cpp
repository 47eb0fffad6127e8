#include "actors/stage/peer_copies.hpp"

#include "kernels/optimizer/optimizer.hpp"

#include <algorithm>

namespace troupe {

uint64_t copy_elements(const Job& job, uint32_t slice) {
  return job.plan.slices[slice].count
         * (1 + state_slots(job.options.rule.kind));
}

PeerCopy copy_of(const Job& job, const std::shared_ptr<ShardStore>& store,
                 uint32_t slice, uint64_t version) {
  const auto count = job.plan.slices[slice].count;
  return {{store, store->values(slice, version), count},
          {store, store->state(slice, version),
           copy_elements(job, slice) - count}};
}

void install_copy(const Job& job, ShardStore& store, uint32_t slice,
                  uint64_t version, const TensorView& copy) {
  const auto count = job.plan.slices[slice].count;
  const auto target = store.replace(slice, version);
  std::copy_n(copy.data(), count, target.values);
  std::copy_n(copy.data() + count, copy.size() - count, target.state);
  store.install(slice, version, {});
}

/// A learner is one of several slices, whose first holder is the same.
CopyDuties copy_duties(const Activate& activation, uint32_t own) {
  CopyDuties out;
  if (activation.rollback)
    return out;
  std::set<uint32_t> known;
  for (const auto& chain : activation.chains) {
    const bool gives = !chain.replicas.empty() && chain.replicas.front() == own;
    for (auto learner : chain.learners) {
      if (!known.insert(learner).second)
        continue;
      out.learns = out.learns || learner == own;
      if (gives)
        out.learners.insert(learner);
    }
  }
  return out;
}

} // namespace troupe
