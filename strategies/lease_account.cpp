#include "strategies/lease_account.hpp"

#include <algorithm>
#include <utility>

namespace troupe {
namespace {

/// Shards beyond the number of slices own nothing and apply nothing; they are
/// the last ones.
uint32_t owners_with_slices(const Plan& plan) {
  uint32_t owners = 0;
  for (auto owner : plan.owner)
    if (owner != Plan::every_worker)
      owners = std::max(owners, owner + 1);
  return owners;
}

std::optional<uint64_t> bound_of(int64_t staleness) {
  return staleness < 0 ? std::nullopt
                       : std::optional{static_cast<uint64_t>(staleness)};
}

} // namespace

LeaseAccount::LeaseAccount(const Plan& plan, const Sampling& sampling,
                           const Terms& terms)
  : terms_(terms),
    sampling_(sampling),
    consumers_(owners_with_slices(plan)),
    book_(terms.steps * terms.virtual_ranks, consumers_),
    clocks_(bound_of(terms.staleness)) {}

void LeaseAccount::worker_lost(uint32_t worker) {
  book_.worker_lost(worker);
  clocks_.leave(worker);
  waiting_.erase(worker);
}

void LeaseAccount::resume(uint64_t steps, uint64_t samples) {
  before_ = Before{steps, samples};
}

uint64_t LeaseAccount::samples_of(uint64_t lease) const {
  const auto ranks = terms_.virtual_ranks;
  return sampling_.rank(lease / ranks, static_cast<uint32_t>(lease % ranks))
    .count;
}

/// What is consumed beyond what the earlier coordinator had counted, as steps;
/// or, where chains were lost with it, how much less. A tail may get the rest
/// of what it had counted from its head: those steps are not counted again.
/// Nobody knows the losses of any of them any more.
LeaseAccount::Resumed LeaseAccount::catch_up(uint64_t lost) {
  const auto ranks = terms_.virtual_ranks;
  const auto before = *std::exchange(before_, std::nullopt);
  uint64_t samples = 0;
  for (uint64_t lease = 0; lease < book_.granted(); ++lease)
    if (book_.is_consumed(lease))
      samples += samples_of(lease);
  const auto steps = book_.consumed() / ranks;
  window_leases_ = static_cast<uint32_t>(book_.consumed() % ranks);
  Resumed out{(before.steps * ranks - lost) / ranks, {}};
  owed_ = out.step - std::min(out.step, steps);
  for (auto step = out.step; step < steps; ++step)
    out.completed.push_back({step});
  if (lost == 0)
    window_.samples = static_cast<uint32_t>(
      samples > before.samples ? samples - before.samples : 0);
  return out;
}

/// At first a job that began with a checkpoint has counted all that its shards
/// have, whichever leases those are.
KnownLeases LeaseAccount::known() const {
  KnownLeases out;
  if (begun_ || !terms_.goes_on)
    out.acknowledged = book_.consumed_leases();
  if (before_)
    out.counted = before_->steps * terms_.virtual_ranks;
  return out;
}

LeaseAccount::Resumed
LeaseAccount::begin_epoch(const std::set<uint32_t>& workers, SealedState sealed,
                          uint64_t lost, uint64_t step) {
  const auto held = book_.holders();
  auto before = book_.consumed_leases();
  for (auto& [shard, set] : sealed.applied)
    for (auto lease = set.floor(); lease < book_.granted(); ++lease)
      if (book_.is_consumed(lease) && sealed.promised.at(shard).contains(lease))
        set.insert(lease);
  book_.restored(std::move(sealed.applied));
  if (!std::exchange(begun_, true) && terms_.goes_on) // of a step's leases
    skip_begun(before);
  for (const auto& [lease, worker] : held)
    if (book_.is_consumed(lease))
      clocks_.consumed(worker);
    else
      clocks_.taken_back(worker);
  members(workers);
  if (before_)
    return catch_up(lost);
  Resumed out{lost > 0 ? undo(lost, step) : step, {}};
  // Not only leases that were granted here count: shards may have had some that
  // an earlier coordinator granted.
  for (auto lease = before.floor(); lease < book_.granted(); ++lease)
    if (book_.is_consumed(lease) && !before.contains(lease))
      if (auto commit = consumed(lease, out.step + out.completed.size()))
        out.completed.push_back(*commit);
  return out;
}

/// The steps of the checkpoint that the job begins with are counted already.
void LeaseAccount::skip_begun(LeaseSet& before) {
  before = book_.consumed_leases();
  count_rest(book_.consumed());
}

/// So many leases were consumed: what of them does not fill a step, as if they
/// were the first ones.
void LeaseAccount::count_rest(uint64_t leases) {
  empty_window();
  window_leases_ = static_cast<uint32_t>(leases % terms_.virtual_ranks);
  for (auto lease = leases - window_leases_; lease < leases; ++lease)
    window_.samples += static_cast<uint32_t>(samples_of(lease));
}

/// V consumed leases are a step, whichever they are. What the losses of those
/// that stay were is not known any more.
uint64_t LeaseAccount::undo(uint64_t leases, uint64_t step) {
  const uint64_t ranks = terms_.virtual_ranks;
  const auto count = step * ranks + window_leases_;
  const auto left = count - std::min(count, leases);
  count_rest(left);
  return left / ranks;
}

void LeaseAccount::members(const std::set<uint32_t>& workers) {
  // Who is in the new epoch asks again; who is not may never come back.
  for (const auto& [lease, worker] : std::map{book_.holders()})
    book_.worker_lost(worker);
  clocks_.members(workers);
  waiting_.clear();
}

void LeaseAccount::begin_period(const Consistency& consistency,
                                const std::set<uint32_t>& workers,
                                const std::set<uint32_t>& shards) {
  const auto ranks = terms_.virtual_ranks;
  book_ = LeaseBook{terms_.steps * ranks, consumers_};
  std::map<uint32_t, LeaseSet> applied;
  for (auto shard : shards)
    applied[shard] = LeaseSet{consistency.step * ranks, {}};
  book_.restored(std::move(applied));
  begun_ = true; // what a checkpoint had is among the steps before
  losses_.clear();
  empty_window();
  bound(consistency);
  members(workers);
}

void LeaseAccount::bound(const Consistency& consistency) {
  clocks_.bound(bound_of(consistency.staleness));
}

uint64_t LeaseAccount::hold() {
  const auto ranks = terms_.virtual_ranks;
  const auto step = (book_.granted() + ranks - 1) / ranks;
  held_from_ = step * ranks;
  book_.hold(held_from_);
  return step;
}

bool LeaseAccount::drained() const {
  return book_.granted() == held_from_ && book_.consumed() == held_from_;
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

void LeaseAccount::computed(uint64_t lease, const CommitBook::Leaf& leaf) {
  if (!book_.is_consumed(lease)) {
    losses_[lease] = leaf;
    return;
  }
  window_loss_ += leaf.loss_sum; // late, of a report: no matter in which step
  window_losses_ += leaf.samples;
}

std::optional<CommitBook::Commit>
LeaseAccount::applied(uint64_t lease, uint32_t shard, uint64_t step) {
  const auto holder = book_.holder(lease);
  if (!book_.applied(lease, shard))
    return std::nullopt;
  if (holder)
    clocks_.consumed(*holder);
  return consumed(lease, step);
}

void LeaseAccount::refused(uint64_t lease) {
  if (const auto holder = book_.refused(lease))
    clocks_.taken_back(*holder);
}

std::optional<CommitBook::Commit> LeaseAccount::consumed(uint64_t lease,
                                                         uint64_t step) {
  const auto ranks = terms_.virtual_ranks;
  window_.samples += static_cast<uint32_t>(samples_of(lease));
  if (auto known = losses_.extract(lease)) {
    window_loss_ += known.mapped().loss_sum;
    window_losses_ += known.mapped().samples;
  }
  if (++window_leases_ < ranks)
    return std::nullopt;
  auto commit = window_;
  commit.step = step;
  if (window_losses_ > 0)
    commit.loss = window_loss_ / window_losses_;
  empty_window();
  if (owed_ == 0)
    return commit;
  --owed_;
  return std::nullopt;
}

void LeaseAccount::empty_window() {
  window_ = {};
  window_loss_ = 0;
  window_losses_ = 0;
  window_leases_ = 0;
}

} // namespace troupe
