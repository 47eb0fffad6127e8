#include "strategies/resume.hpp"

#include "strategies/require.hpp"

#include <algorithm>

namespace troupe {

Resume decide_resume(const std::vector<Restorable>& slices,
                     uint64_t committed) {
  Resume found;
  if (slices.empty()) {
    found.reason = "nothing is owned";
    return found;
  }
  uint64_t oldest = 0;
  uint64_t newest = slices.front().newest;
  for (const auto& slice : slices) {
    oldest = std::max(oldest, slice.oldest);
    newest = std::min(newest, slice.newest);
  }
  found.rollback = oldest > newest || newest < committed;
  found.version = found.rollback ? 0 : newest;
  found.reason = found.rollback
                   ? "a slice lost its state: it has version "
                       + std::to_string(newest) + " of "
                       + std::to_string(std::max(oldest, committed))
                   : "every slice has version " + std::to_string(newest);
  return found;
}

Resume decide_resume(const std::vector<uint64_t>& versions,
                     uint64_t committed) {
  strategies::require(!versions.empty(), "no replica to go on with");
  const auto newest = std::max_element(versions.begin(), versions.end());
  Resume found;
  found.version = *newest;
  found.source = static_cast<uint32_t>(newest - versions.begin());
  found.synchronise = *std::min_element(versions.begin(), versions.end())
                      < *newest;
  found.rollback = *newest < committed;
  found.reason = "the newest replica has version "
                 + std::to_string(found.version)
                 + (found.rollback ? " of " + std::to_string(committed)
                                       + ", and nobody has more"
                                   : "");
  return found;
}

Resume decide_resume(const std::vector<Restorable>& slices,
                     const std::vector<Restorable>& replicas,
                     uint64_t committed) {
  strategies::require(!replicas.empty(), "no replica to go on with");
  uint64_t newest = 0;
  for (const auto& replica : replicas)
    newest = std::max(newest, replica.newest);
  for (const auto& slice : slices)
    if (slice.newest < newest)
      newest = slice.newest;
  const auto has = [newest](const Restorable& x) {
    return x.oldest <= newest && newest <= x.newest;
  };
  const auto source = std::ranges::find_if(replicas, has);
  Resume found;
  if (newest < committed || source == replicas.end()
      || !std::ranges::all_of(slices, has)) {
    found.rollback = true;
    found.reason = "no version is left whole with shards and workers, who have "
                   + std::to_string(newest) + " of "
                   + std::to_string(std::max(newest, committed));
    return found;
  }
  found.version = newest;
  found.source = static_cast<uint32_t>(source - replicas.begin());
  found.synchronise = !std::ranges::all_of(replicas, has);
  found.reason = "shards and workers have version " + std::to_string(newest);
  return found;
}

Resume decide_resume(const std::map<uint32_t, LeaseSet>& leases,
                     const std::vector<Restorable>& replicas,
                     const LeaseSet& acknowledged, uint64_t committed) {
  std::vector<uint64_t> versions;
  for (const auto& replica : replicas)
    versions.push_back(replica.newest);
  auto found = decide_resume(versions, committed);
  uint64_t lost = 0;
  for (const auto& [shard, applied] : leases)
    lost += lacking(acknowledged, applied);
  if (lost > 0) {
    found.rollback = true;
    found.reason = "chains have lost " + std::to_string(lost)
                   + " pushes of rows that were acknowledged";
  }
  if (found.rollback) { // of rows nobody keeps an older version
    found.version = 0;
    found.synchronise = false;
  }
  return found;
}

} // namespace troupe
