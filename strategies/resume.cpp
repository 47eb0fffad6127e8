#include "strategies/resume.hpp"

#include "strategies/require.hpp"

#include <algorithm>

namespace troupe {
namespace {

Resume rolled_back(std::string reason) {
  Resume out;
  out.verdict = ResumeVerdict::roll_back;
  out.reason = std::move(reason);
  return out;
}

Resume resume_slices(const SealedState& sealed) {
  Resume found;
  if (sealed.slices.empty()) {
    found.reason = "nothing is owned";
    return found;
  }
  uint64_t oldest = 0;
  uint64_t newest = sealed.slices.front().newest;
  for (const auto& slice : sealed.slices) {
    oldest = std::max(oldest, slice.oldest);
    newest = std::min(newest, slice.newest);
  }
  if (oldest > newest || newest < sealed.committed)
    return rolled_back("a slice lost its state: it has version "
                       + std::to_string(newest) + " of "
                       + std::to_string(std::max(oldest, sealed.committed)));
  if (sealed.undecided)
    return rolled_back("what was decided of step " + std::to_string(newest)
                       + " is lost with all who knew it");
  found.message.version = newest;
  found.reason = "every slice has version " + std::to_string(newest);
  return found;
}

Resume resume_replicas(const SealedState& sealed) {
  const auto& replicas = sealed.replicas;
  strategies::require(!replicas.empty(), "no replica to go on with");
  const auto [oldest, newest] = std::ranges::minmax(replicas, {},
                                                    &Restorable::newest);
  const auto source = std::ranges::find(replicas, newest.newest,
                                        &Restorable::newest);
  Resume found;
  found.message.version = newest.newest;
  found.message.source = static_cast<uint32_t>(source - replicas.begin());
  found.message.synchronise = oldest.newest < newest.newest;
  found.reason = "the newest replica has version "
                 + std::to_string(newest.newest);
  if (newest.newest < sealed.committed) {
    found.verdict = ResumeVerdict::roll_back;
    found.reason += " of " + std::to_string(sealed.committed)
                    + ", and nobody has more";
  }
  return found;
}

Resume resume_both(const SealedState& sealed) {
  const auto& replicas = sealed.replicas;
  strategies::require(!replicas.empty(), "no replica to go on with");
  auto slices = sealed.slices;
  if (sealed.everywhere >= sealed.committed)
    for (auto& slice : slices)
      slice.newest = std::min(slice.newest, sealed.everywhere);
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
  if (newest < sealed.committed || source == replicas.end()
      || !std::ranges::all_of(slices, has))
    return rolled_back("no version is left whole with shards and workers, who "
                       "have "
                       + std::to_string(newest) + " of "
                       + std::to_string(std::max(newest, sealed.committed)));
  Resume found;
  found.message.version = newest;
  found.message.source = static_cast<uint32_t>(source - replicas.begin());
  found.message.synchronise = !std::ranges::all_of(replicas, has);
  found.reason = "shards and workers have version " + std::to_string(newest);
  return found;
}

Resume resume_free_rows(const SealedState& sealed) {
  auto found = resume_replicas(sealed);
  uint64_t lost = 0;
  for (const auto& [shard, applied] : sealed.promised)
    lost += lacking(sealed.leases.acknowledged, applied);
  if (lost > 0)
    return rolled_back("chains have lost " + std::to_string(lost)
                       + " pushes of rows that were acknowledged");
  return found.rolls_back() ? rolled_back(found.reason) : found;
}

/// Of what is known to be consumed.
uint64_t lost_leases(const SealedState& sealed) {
  const auto& known = sealed.leases.acknowledged;
  const auto in_all = [&](uint64_t lease) {
    return std::ranges::all_of(sealed.applied, [&](const auto& tail) {
      return tail.second.contains(lease)
             || sealed.promised.at(tail.first).contains(lease);
    });
  };
  auto lease = known.end();
  for (const auto& [shard, applied] : sealed.applied)
    lease = std::min(lease, applied.floor());
  uint64_t lost = 0;
  for (; lease < known.end(); ++lease)
    lost += known.contains(lease) && !in_all(lease) ? 1 : 0;
  return lost;
}

Resume resume_leases(const SealedState& sealed) {
  Resume found;
  if (sealed.leases.counted) {
    strategies::require(!sealed.promised.empty(), "no leases to go on with");
    auto kept = sealed.promised.begin()->second;
    for (const auto& [shard, promised] : sealed.promised)
      kept = intersection(kept, promised);
    found.lost_leases = *sealed.leases.counted
                        - std::min(*sealed.leases.counted, kept.size());
  } else {
    found.lost_leases = lost_leases(sealed);
  }
  found.reason = "each slice goes on with the leases that it has";
  if (found.lost_leases > 0) {
    found.verdict = ResumeVerdict::compute_again;
    found.reason = "a chain has lost " + std::to_string(found.lost_leases)
                   + " leases, computed again for it";
  }
  return found;
}

} // namespace

Resume decide_resume(const SealedState& sealed, ResumeMode mode) {
  switch (mode) {
    case ResumeMode::slices:
      return resume_slices(sealed);
    case ResumeMode::replicas:
      return resume_replicas(sealed);
    case ResumeMode::both:
      return resume_both(sealed);
    case ResumeMode::free_rows:
      return resume_free_rows(sealed);
    case ResumeMode::leases:
      break;
  }
  return resume_leases(sealed);
}

} // namespace troupe
