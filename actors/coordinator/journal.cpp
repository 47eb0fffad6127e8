#include "actors/coordinator/state.hpp"
#include "actors/job/first_period.hpp"
#include "actors/journal/history.hpp"
#include "actors/process/steady_ms.hpp"
#include "strategies/incarnation.hpp"

#include <algorithm>
#include <utility>

// What outlives this coordinator: its journal, and how the next one goes on
// from it (PROTOCOL 15, 16).

namespace troupe {
namespace {

/// Names wait as long as the membership gathers those who were there.
constexpr uint64_t names_return_ms = 1'000;

std::vector<std::vector<uint32_t>> replicas_of(const ChainBook& chains) {
  std::vector<std::vector<uint32_t>> out;
  for (uint32_t slice = 0; slice < chains.slices(); ++slice)
    out.push_back(chains.chain(slice).replicas);
  return out;
}

std::vector<std::vector<uint32_t>> wanted_of(const ChainBook& chains) {
  std::vector<std::vector<uint32_t>> out;
  for (uint32_t slice = 0; slice < chains.slices(); ++slice)
    out.push_back(chains.wanted(slice));
  return out;
}

} // namespace

/// The members keep the incarnations that they were given; new ones get larger
/// ones.
void CoordinatorState::resume(const JobHistory& past) {
  incarnations_ = first_incarnation(options_.term);
  replanned_in_ = past.replanned_in;
  if (past.epoch == 0)
    return; // nothing was decided: it begins anew, but for its address
  if (!past.replanned) { // else they are as the job begins
    switch_ = ConsistencySwitch{past.consistency, job_->options.virtual_ranks};
    async_ = hands_out_leases(*job_, past.consistency);
    period_epoch_ = past.period_epoch;
    epoch_plan_.chains().resume(past.chains, past.wanted, past.epoch);
  }
  reshaping_.resume(past.joined, past.left);
  for (auto role : past.left) { // it may not have heard so
    left_out_.dismiss(role, incarnations_);
    left_out_.told_to_go(role);
  }
  steps_ = std::max(past.steps, job_->first_step());
  commits_.resume(steps_, past.counts.leaves_recomputed,
                  past.counts.ranks_left_out);
  metrics_.recomputed_so_far(past.counts.leaves_recomputed);
  record_.resume(past);
  checkpoints_.resume(past.numeric_classes);
  if (async_) {
    leases_.bound(past.consistency);
    leases_.resume(steps_, past.counts.samples);
  }
  metrics_.steps.add(static_cast<double>(steps_));
  metrics_.samples.add(static_cast<double>(past.counts.samples));
  begun_ = true;
  past_members_ = past.members;
  for (const auto& row : past.recoveries)
    if (row.resumed_ms == 0) // its loss is known
      past_members_.erase(row.role);
  std::set<RoleId> members;
  for (const auto& [role, incarnation] : past_members_) {
    lost_[role] = options_.began;
    members.insert(role);
  }
  // Whether they are there nothing tells but that they join again.
  for (const auto& reader : job_->plan.of_kind(RoleKind::reader))
    lost_[reader.role] = options_.began;
  joining_.expect(std::move(members), steady_ms() + names_return_ms);
  if (!past.replanned) // else it was ended for that
    write_loss({RoleKind::coordinator, 0}, options_.began, past.fault);
}

void CoordinatorState::write_loss(RoleId role, Clock::time_point when,
                                  StepPhase phase) {
  record_.lost(role, when, steps_, phase);
  journal_.death(record_.newest_loss());
}

void CoordinatorState::write_down(Activate message, bool undone,
                                  const std::string& reason) {
  for (const auto& [role, incarnation] : std::exchange(past_members_, {}))
    if (auto known = present_.find(role);
        known == present_.end() || known->second.incarnation != incarnation)
      write_loss(role, options_.began, StepPhase::none); // with the coordinator
  write_commits();
  EpochRow row;
  row.epoch = message.fence.epoch;
  row.version = async_ ? steps_ : message.version;
  row.rollback = message.rollback || undone;
  for (const auto& [role, present] : present_)
    if (!present.numeric_class.empty())
      checkpoints_.computes_in(present.numeric_class);
  row.numeric_classes = checkpoints_.numeric_classes();
  for (const auto& [role, present] : present_)
    if (is_member_kind(role.kind))
      row.members[role] = present.incarnation;
  row.chains = replicas_of(epoch_plan_.chains());
  row.wanted = wanted_of(epoch_plan_.chains());
  row.consistency = switch_.now();
  row.period_epoch = period_epoch_;
  row.reason = reason;
  if (!options_.journal) {
    journal_.epoch(row, [] {}); // for who is shown the run
    announce(message);
    return;
  }
  fence_ = {}; // until it is written, nobody is in it
  const auto handle = caf::actor_cast<caf::strong_actor_ptr>(self_);
  journal_.epoch(row, [this, handle, message = std::move(message)] {
    caf::anon_send(caf::actor_cast<caf::actor>(handle),
                   Completion{[this, message] {
                     if (proposed_ != message.fence
                         || membership_.state() != Membership::State::active)
                       return; // somebody was lost meanwhile
                     fence_ = message.fence;
                     announce(message);
                   }});
  });
}

void CoordinatorState::write_commits() {
  if (journal_.has_commits())
    journal_.flush(record_.counts(commits_));
}

/// Once everybody knows: a coordinator that dies before is followed by another.
void CoordinatorState::write_end() {
  if (!ending_.outcome)
    return;
  write_commits();
  journal_.over(ending_.outcome->status, ending_.outcome->line);
}

} // namespace troupe
