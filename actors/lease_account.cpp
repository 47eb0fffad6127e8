#include "actors/lease_account.hpp"

#include <algorithm>
#include <utility>

namespace troupe {
namespace {

/// Shards beyond the number of slices own nothing and apply nothing; they are
/// the last ones.
uint32_t owners_with_slices(const Plan& plan) {
  return *std::max_element(plan.owner.begin(), plan.owner.end()) + 1;
}

/// What all slices of a shard have applied.
LeaseSet applied_by_all(const std::vector<SliceState>& slices) {
  std::map<uint64_t, size_t> above;
  auto floor = slices.front().lease_floor;
  for (const auto& slice : slices)
    floor = std::min(floor, slice.lease_floor);
  for (const auto& slice : slices) {
    for (auto lease = floor; lease < slice.lease_floor; ++lease)
      ++above[lease];
    for (auto lease : slice.leases_above)
      ++above[lease];
  }
  LeaseSet applied{floor, {}};
  for (const auto& [lease, count] : above)
    if (count == slices.size())
      applied.insert(lease);
  return applied;
}

std::optional<uint64_t> bound_of(const JobOptions& options) {
  return options.staleness < 0
           ? std::nullopt
           : std::optional{static_cast<uint64_t>(options.staleness)};
}

} // namespace

LeaseAccount::LeaseAccount(const Job& job)
  : job_(job),
    book_(job.total_steps * job.options.virtual_ranks,
          owners_with_slices(job.plan)),
    clocks_(bound_of(job.options)) {}

void LeaseAccount::worker_lost(uint32_t worker) {
  book_.worker_lost(worker);
  clocks_.leave(worker);
  waiting_.erase(worker);
}

void LeaseAccount::begin_epoch(const std::map<RoleId, Sealed>& seals) {
  const auto held = book_.holders();
  for (const auto& [role, seal] : seals)
    if (role.kind == RoleKind::shard && !seal.slices.empty())
      book_.shard_restored(role.index, applied_by_all(seal.slices));
  for (const auto& [lease, worker] : held)
    if (book_.is_consumed(lease))
      clocks_.consumed(worker);
    else
      clocks_.taken_back(worker);
  std::set<uint32_t> workers;
  for (const auto& [role, seal] : seals)
    if (role.kind == RoleKind::worker) {
      workers.insert(role.index);
      book_.worker_lost(role.index); // it asks again in the new epoch
    }
  clocks_.members(workers);
  waiting_.clear();
}

void LeaseAccount::ask(uint32_t worker, uint32_t count) {
  waiting_[worker] = count;
}

std::map<uint32_t, std::vector<uint64_t>> LeaseAccount::hand_out() {
  std::map<uint32_t, std::vector<uint64_t>> out;
  for (const auto& [worker, count] : waiting_) {
    std::vector<uint64_t> granted;
    while (granted.size() < count && clocks_.may_begin(worker)) {
      const auto one = book_.grant(worker, 1);
      if (one.empty())
        break;
      clocks_.begin(worker);
      granted.push_back(one.front());
    }
    if (!granted.empty())
      out.emplace(worker, std::move(granted));
  }
  for (const auto& [worker, granted] : out)
    waiting_.erase(worker);
  return out;
}

void LeaseAccount::computed(uint64_t lease, const LeafLoss& leaf) {
  losses_[lease] = leaf;
}

std::optional<CommitBook::Commit>
LeaseAccount::applied(const LeaseApplied& applied, uint64_t step) {
  const auto holder = book_.holder(applied.lease);
  if (!book_.applied(applied.lease, applied.shard.index))
    return std::nullopt;
  if (holder)
    clocks_.consumed(*holder);
  return consumed(applied.lease, step);
}

void LeaseAccount::refused(uint64_t lease) {
  if (const auto holder = book_.refused(lease))
    clocks_.taken_back(*holder);
}

std::optional<CommitBook::Commit> LeaseAccount::consumed(uint64_t lease,
                                                         uint64_t step) {
  const auto& leaf = losses_[lease];
  window_.loss += leaf.loss_sum;
  window_.samples += leaf.samples;
  losses_.erase(lease);
  if (++window_leases_ < job_.options.virtual_ranks)
    return std::nullopt;
  window_leases_ = 0;
  window_.step = step;
  if (window_.samples > 0)
    window_.loss /= window_.samples;
  return std::exchange(window_, {});
}

} // namespace troupe
