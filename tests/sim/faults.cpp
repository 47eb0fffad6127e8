#include "tests/sim/cluster_hosts.hpp"
#include "tests/sim/cluster_rough.hpp"
#include "tests/sim/delays.hpp"
#include "tests/sim/wishes.hpp"

#include <unistd.h>

#include <algorithm>

// What goes wrong, when.

namespace troupe::sim {
namespace {

/// Of faults of replicas, which another one follows within so long.
constexpr uint32_t again_percent = 40;
constexpr uint64_t again_within = 6'000;
/// Steps of the calm end, for which no fault is drawn; one that waits for its
/// moment, or follows another, may come later.
constexpr uint64_t calm_steps = 3;

} // namespace

/// Faults come some time after certain steps have begun.
void Cluster::plan_faults(uint32_t count) {
  auto& draw = runtime_.random();
  triggers_.draw(draw, count, job_.total_steps - calm_steps);
  changes_.draw(draw, scenario_.changes, job_.total_steps * 3 / 4);
  switches_.draw(draw, scenario_.switches, job_.total_steps * 3 / 4);
}

void Cluster::progressed(uint64_t step) {
  step_ = std::max(step_, step);
  const auto soon = [this] { return runtime_.random().below(6'000); };
  triggers_.reach(step_, [&] { runtime_.after(soon(), [this] { inject(); }); });
  changes_.reach(step_,
                 [&] { runtime_.after(soon(), [this] { ask_for_change(); }); });
  switches_.reach(step_, [&] {
    runtime_.after(soon(), [this] { ask_for_switch(); });
  });
}

void Cluster::ask_for_change() {
  if (over_)
    return;
  auto& draw = runtime_.random();
  std::vector<std::string> workers, shards, away;
  for (const auto& [role, member] : members_) {
    (role.kind == RoleKind::worker ? workers : shards)
      .push_back(to_string(role));
    if (role.kind == RoleKind::worker && !member.up)
      away.push_back(to_string(role));
  }
  const auto what =
    draw_change(draw, shards, [&]() -> std::optional<std::string> {
      if (!gone_.empty()) // some worker must stay
        return std::nullopt;
      removes_ = true;
      return any(draw, !away.empty() && draw.chance(80) ? away : workers);
    });
  if (!what)
    return;
  runtime_.note("asked for: " + *what);
  if (runtime_.alive(coordinator_process_))
    runtime_.send(supervisor_, coordinator_.id, letter(ReshapeJob{*what}));
}

void Cluster::inject() {
  if (over_)
    return;
  const auto during = phase();
  for (int tries = 0; tries < 5; ++tries) {
    const auto fault = draw_fault();
    if (!inject(fault))
      continue;
    runtime_.note("fault: " + to_string(fault) + " while " + to_string(during));
    coverage.count(fault, during);
    ++took_effect_;
    if (scenario_.meets()
        && runtime_.random().chance(again_percent)) // while that is mended
      runtime_.after(runtime_.random().below(again_within), [this] {
        kills_next_ = true;
        inject();
      });
    return;
  }
  runtime_.after(2'000, [this] { inject(); }); // nothing could go wrong now
}

Fault Cluster::draw_fault() {
  auto& draw = runtime_.random();
  if (std::exchange(kills_next_, false) && draw.chance(50))
    return Fault::kill_worker;
  const auto first = static_cast<uint32_t>(Fault::kill_standby);
  if (scenario_.hosts > 0 && draw.chance(60))
    return static_cast<Fault>(
      first_host_fault + draw.below(first_rough_fault - first_host_fault));
  if (scenario_.rough && draw.chance(60))
    return static_cast<Fault>(first_rough_fault
                              + draw.below(fault_kinds - first_rough_fault));
  if (scenario_.standby && draw.chance(50)) {
    const auto which = draw.below(first_host_fault - first + 1);
    return which == 0 ? Fault::kill_coordinator
                      : static_cast<Fault>(first + which - 1);
  }
  return static_cast<Fault>(
    draw.below(plain_fault_kinds + (scenario_.reckless ? 1 : 0)));
}

bool Cluster::inject(Fault fault) {
  auto& draw = runtime_.random();
  const auto now = runtime_.now();
  switch (fault) {
    case Fault::kill_worker:
      return kill_some(RoleKind::worker, false);
    case Fault::kill_shard:
      return kill_some(RoleKind::shard, false);
    case Fault::kill_host:
      return kill_some(RoleKind::shard, true);
    case Fault::pause:
      return stand_still(paused_for[0], paused_for[1]);
    case Fault::stop:
      return stand_still(stopped_for[0], stopped_for[1]);
    case Fault::cut_link:
      return cut_some(false);
    case Fault::cut_control:
      return cut_some(true);
    case Fault::one_way:
      return block_some();
    case Fault::delay:
      runtime_.network.slow_extra = draw.between(late_by[0], late_by[1]);
      runtime_.network.slow_until = now
                                    + draw.between(late_for[0], late_for[1]);
      return true;
    case Fault::repeat:
      runtime_.network.repeat_percent = 30;
      runtime_.network.repeat_later = draw.between(1'000, 90'000);
      runtime_.network.repeat_until = now + draw.between(5'000, 60'000);
      return true;
    case Fault::cut_off:
      return cut_off();
    case Fault::clock:
      runtime_.pause(coordinator_process_,
                     now + draw.between(clock_ahead[0], clock_ahead[1]));
      return true;
    case Fault::kill_coordinator:
      return kill_coordinator();
    case Fault::slow_disk:
      return slow_disk();
    case Fault::full_disk: // no coordinator may die from here on
      return scenario_.kept && !scenario_.standby && triggers_.empty()
             && !std::exchange(disk_.full, true);
    case Fault::lose_chain:
      return lose_chain();
    case Fault::kill_standby:
      return kill_standby();
    case Fault::kill_voter:
      return kill_voter();
    case Fault::stop_leader:
      return stop_leader();
    case Fault::split:
      return split();
    case Fault::host_kill:
    case Fault::host_cut:
    case Fault::host_slow:
      return ClusterHosts{*this}.inject(fault);
    case Fault::signal_all:
    case Fault::unreadable:
    case Fault::stuck_disk:
    case Fault::memory:
      return ClusterRough{*this}.inject(fault);
  }
  return false;
}

bool Cluster::is_shard(uint32_t process) const {
  auto found = roles_.find(process);
  return found != roles_.end() && found->second.kind == RoleKind::shard;
}

bool Cluster::kill_some(RoleKind kind, bool with_memory) {
  if (kind == RoleKind::shard && fragile())
    return false;
  std::vector<RoleId> there;
  for (const auto& [role, member] : members_)
    if (role.kind == kind && runtime_.alive(member.process)
        && !(kind == RoleKind::worker && guarded(member.process))
        && (!with_memory || may_lose_memory(role)))
      there.push_back(role);
  if (there.empty())
    return false;
  kill(there[runtime_.random().below(there.size())], with_memory);
  return true;
}

/// What it does last reaches some and not others: the coordinator does not hear
/// of a gradient that shards have, a head is ahead of its followers. Shards are
/// back at once; some workers never.
bool Cluster::cut_off() {
  auto& draw = runtime_.random();
  const auto process = some_process(false);
  const auto known = roles_.find(process);
  if (known == roles_.end() || guarded(process))
    return false;
  const auto role = known->second;
  std::vector<uint32_t> others{coordinator_process_};
  for (const auto& [other, member] : members_)
    if ((other.kind == RoleKind::shard
         || scenario_.kind == Scenario::Kind::dense_reduced || scenario_.norms)
        && other != role)
      others.push_back(member.process);
  const auto other = others[draw.below(others.size())];
  const auto time = draw.between(500, 30'000);
  runtime_.note("nothing gets from " + runtime_.name(process) + " to "
                + runtime_.name(other));
  runtime_.block(process, other, runtime_.now() + 2 * time);
  blocked_until_ = std::max(blocked_until_, runtime_.now() + 2 * time);
  size_t workers = 0;
  for (const auto& [x, member] : members_)
    workers += x.kind == RoleKind::worker && !gone_.contains(x)
                   && !leaving_.contains(x)
                 ? 1
                 : 0;
  const bool for_good = role.kind == RoleKind::worker && workers > 1
                        && !removes_ && draw.chance(30)
                        && scenario_.hosts == 0; // others may be cut off
  if (for_good)
    gone_.insert(role);
  runtime_.after(time, [this, process, role] {
    if (over_ || !runtime_.alive(process))
      return;
    if (role.kind == RoleKind::shard)
      quick_.insert(role.index);
    runtime_.kill(process, "cut off, killed");
  });
  return true;
}

void Cluster::kill(RoleId role, bool with_memory) {
  auto& member = members_.at(role);
  if (with_memory) {
    close(member.memory);
    member.memory = new_memory(role);
    ++member.memories;
    memory_lost_ = true;
  }
  runtime_.kill(member.process, with_memory ? "its host is gone" : "killed");
}

uint32_t Cluster::some_process(bool with_coordinator) {
  std::vector<uint32_t> there;
  for (const auto& [role, member] : members_)
    if (runtime_.alive(member.process))
      there.push_back(member.process);
  if (with_coordinator)
    there.push_back(coordinator_process_);
  return there.empty() ? coordinator_process_
                       : there[runtime_.random().below(there.size())];
}

bool Cluster::stand_still(uint64_t low, uint64_t high) {
  const auto process = some_process(false);
  if (process == coordinator_process_ || guarded(process))
    return false;
  runtime_.note(runtime_.name(process) + " stands still");
  runtime_.pause(process,
                 runtime_.now() + runtime_.random().between(low, high));
  return true;
}

bool Cluster::cut_some(bool control) {
  const auto a = some_process(false);
  const auto b = control ? coordinator_process_ : some_process(false);
  if (a == b || (control && guarded(a)))
    return false;
  if (!control)
    return runtime_.cut_links(a, b) + byte_links_.cut_between(a, b) > 0;
  // It is as good as dead, but nobody has noticed yet.
  blocked_until_ = std::max(blocked_until_, runtime_.now() + 10'000);
  doomed_.insert(a);
  return runtime_.cut_control(a, b) > 0;
}

bool Cluster::block_some() {
  const auto a = some_process(true);
  const auto b = some_process(true);
  if (a == b)
    return false;
  if (guarded(a) || guarded(b))
    return false;
  const auto time = runtime_.random().between(blocked_for[0], blocked_for[1]);
  blocked_until_ = std::max(blocked_until_, runtime_.now() + time);
  runtime_.note("nothing gets from " + runtime_.name(a) + " to "
                + runtime_.name(b));
  runtime_.block(a, b, runtime_.now() + time);
  // The heartbeat of a control connection fails.
  if (time > heartbeat_fails)
    runtime_.after(heartbeat_fails, [this, a, b] {
      if (!runtime_.alive(a) || !runtime_.alive(b))
        return;
      runtime_.cut_control(a, b);
      doomed_.insert({a, b});
    });
  return true;
}

} // namespace troupe::sim
