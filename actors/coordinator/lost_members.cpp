#include "actors/coordinator/present_hosts.hpp"
#include "actors/coordinator/state.hpp"
#include "actors/process/steady_ms.hpp"
#include "strategies/incarnation.hpp"

#include <algorithm>

// Who is silent, lost, cut off or left out, and how it comes back. A death is
// heard of in two ways, in any order: CAF's down message as a connection ends,
// and RoleDied from the supervisor that has buried a process.

namespace troupe {

/// Whether that incarnation, or a newer one, was lost or left out.
bool CoordinatorState::is_gone(RoleId role, uint64_t incarnation) const {
  if (is_member_kind(role.kind))
    return membership_.is_gone(role, incarnation);
  return left_out_.is_gone(role, incarnation);
}

/// Whether it is of a layout before its layers were dealt anew: a host that was
/// cut off, and is back, may have such roles yet.
bool CoordinatorState::is_of_old_layout(RoleId role,
                                        uint64_t incarnation) const {
  return replanned_in_ && is_member_kind(role.kind) && incarnation > 0
         && term_of(incarnation) <= *replanned_in_;
}

/// Whether it came by hand, beside those of the plan: nobody starts it again,
/// and nobody waits for it.
bool CoordinatorState::is_guest(RoleId role) const {
  if (role.kind != RoleKind::reader)
    return reshaping_.is_guest(role);
  return role.index >= job_->options.data_access.readers;
}

/// Whether it belongs to the job, and did not come by hand beside its plan.
bool CoordinatorState::is_planned(RoleId role) const {
  return !is_guest(role)
         && (role.kind == RoleKind::reader
             || reshaping_.roles().contains(role));
}

void CoordinatorState::on(const caf::down_msg& down) {
  joining_.down(down.source);
  for (const auto& [role, present] : present_)
    if (present.actor.address() == down.source) {
      remove_member(RoleId{role}, present.incarnation);
      return;
    }
  observers_.drop(caf::actor_cast<caf::strong_actor_ptr>(down.source));
  if (supervisor_ && supervisor_.address() == down.source) {
    supervisor_ = nullptr;
    if (!course_.is_over())
      fail("the role supervisor is gone");
  }
}

void CoordinatorState::on(const RoleDied& died) {
  metrics_.restarts.add();
  watch_.restarted(died.role, died.left);
  journal_.restarted(died.role, died.how);
  note(died.how);
  if (auto known = present_.find(died.role);
      joining_.died(died) && known != present_.end())
    remove_member(died.role, known->second.incarnation);
  look_at_joining();
  if (died.role.kind == RoleKind::worker && !course_.is_over())
    perform(membership_.died(died.role, clock_.ms()));
}

/// It is here no longer, however it went.
void CoordinatorState::forget(RoleId role) {
  present_.erase(role);
  joining_.gone(role);
  silence_.gone(role);
  seals_.erase(role);
  lack_samples_.erase(role);
  leaves_.forget(role);
}

void CoordinatorState::remove_member(RoleId role, uint64_t incarnation) {
  if (left_out_.lost(role, "its connection ended")
      && (!supervisor_ || is_guest(role)) && !course_.is_over())
    note(to_string(role) + " is left out: its connection ended");
  forget(role);
  if (course_.is_over() || gone_)
    return;
  await_back(role);
  if (!is_member_kind(role.kind)) { // a reader: workers ask another one
    left_out_.gone(role, incarnation);
    faults_.lost(role);
    look_at_joining();
    return;
  }
  write_loss(role, Clock::now(), faults_.lost(role));
  if (async_ && role.kind == RoleKind::worker)
    leases_.worker_lost(role.index);
  fence_ = {};
  perform(membership_.lost(role, incarnation, clock_.ms()));
  perform(reshaping_.lost(role));
  look_at_joining();
}

void CoordinatorState::perform(const Membership::LeaveOut& leave) {
  forget(leave.role);
  fence_ = {};
  leave_out(leave.role, leave.reason);
  perform(reshaping_.lost(leave.role));
}

void CoordinatorState::leave_out(RoleId role, const std::string& reason) {
  tell_left_out(role, reason);
  if (supervisor_ && !is_guest(role))
    self_->send(supervisor_, ReplaceRole{role, reason});
}

void CoordinatorState::tell_left_out(RoleId role, const std::string& reason) {
  if (left_out_.is_to_be_told(role, reason, steady_ms()))
    note(to_string(role) + " is left out: " + reason);
  left_out_.left_out(role, reason);
  await_back(role);
}

/// Whoever supervises it is asked for another process where it stays away.
void CoordinatorState::await_back(RoleId role) {
  if (!is_guest(role))
    lost_[role] = Clock::now();
}

void CoordinatorState::watch_silence(Clock::time_point now) {
  for (const auto& silent : silence_.tick(steady_ms())) {
    const auto present = present_.find(silent.role);
    if (present == present_.end()) // left out with another one
      continue;
    const auto incarnation = present->second.incarnation;
    leave_out(silent.role, silent.reason);
    remove_member(silent.role, incarnation);
  }
  const std::chrono::milliseconds back{options_.return_deadline_ms};
  for (auto& [role, since] : lost_)
    if (supervisor_ && now - since > back && !left_out_.links.is_out(role))
      leave_out(role, "lost and not back");
}

void CoordinatorState::heard_sender() {
  for (auto& [role, present] : present_)
    if (caf::actor_cast<caf::strong_actor_ptr>(present.actor)
        == self_->current_sender())
      silence_.heard(role, steady_ms());
}

void CoordinatorState::on(const LinkLost& lost) {
  const auto is_present = [this](RoleId x) { return present_.contains(x); };
  if (!current(lost.fence) || course_.is_over()
      || (!lost.peers.empty() && std::ranges::none_of(lost.peers, is_present)))
    return; // this epoch does without them
  const bool first = steps_ == job_->first_step()
                     && record_.counts(commits_).rolled_back == 0;
  // Who is silent to everybody says nothing of its address.
  const auto stands_still = [&, now_ms = steady_ms()](RoleId x) {
    return 2 * silence_.silent_ms(x, now_ms) > silence_.limit_ms(now_ms);
  };
  const bool answers = lost.peers.empty()
                       || !std::ranges::all_of(lost.peers, stands_still);
  const auto verdict = joining_.link_lost(lost, first && answers, clock_.ms());
  if (!verdict.note.empty()
      && (first || left_out_.is_news(lost.role, lost.peers)))
    note(verdict.note);
  if (!verdict.fail.empty()) {
    fail(verdict.fail);
    return;
  }
  for (auto peer : lost.peers) // a link that never worked is no dead one
    if (!first && peer != lost.role && present_.contains(peer))
      left_out_.links.failed(lost.role, peer, lost.fence.epoch, clock_.ms());
  renews_ = true;
}

/// Leaves out the fewest members that make every needed link work, where links
/// are dead for good (PROTOCOL 17). Another process on the same host would lack
/// them as well: a supervisor is not asked for one. On one host no cable can be
/// cut.
void CoordinatorState::leave_out_unlinked() {
  if (supervisor_ && hosts_of(present_).size() < 2)
    return;
  const auto cable_of = [this](RoleId one, RoleId other) {
    return cable_between(present_, one, other,
                         keeps_slices(job_->plan.owner_kind));
  };
  const auto members = present_members();
  const auto out = left_out_.links.leave_out(
    members,
    [this](const std::set<RoleId>& x) { return epoch_plan_.viable(x); },
    clock_.ms(), cable_of);
  const auto dead = left_out_.links.dead(members, cable_of);
  if (out.empty() && !dead.empty() && left_out_.stuck_is_news())
    note(
      "no link between " + to_string(dead.front().first) + " and "
      + to_string(dead.front().second)
      + ", and nobody can be spared: the run stands still until there is one");
  for (auto role : out) {
    const auto incarnation = present_.at(role).incarnation;
    std::string names;
    for (auto peer : left_out_.links.to_probe(role, present_roles()))
      names += (names.empty() ? "" : ", ") + to_string(peer);
    tell_left_out(role,
                  "no link to " + names + ", in one epoch after the other");
    remove_member(role, incarnation);
  }
}

} // namespace troupe
