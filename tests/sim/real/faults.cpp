#include "tests/sim/chain_memory.hpp"
#include "tests/sim/delays.hpp"
#include "tests/sim/real/cluster.hpp"
#include "tests/sim/wishes.hpp"

#include <unistd.h>

#include <algorithm>

// What goes wrong, when.

namespace troupe::real {

std::string to_string(Phase phase) {
  constexpr const char* names[] = {"forming", "sealing", "linking", "stepping"};
  return names[static_cast<int>(phase)];
}

/// What control messages tell of the run.
void Cluster::see(const caf::message& message) {
  if (message.match_elements<Propose>()) {
    const auto epoch = message.get_as<Propose>(0).fence.epoch;
    if (epoch <= proposed_)
      return;
    proposed_ = epoch;
    hit_epoch();
  } else if (message.match_elements<Activate>()) {
    const auto& activation = message.get_as<Activate>(0);
    if (activation.fence.epoch <= activated_)
      return;
    activated_ = activation.fence.epoch;
    chains_ = activation.chains;
    hit_epoch();
    if (activation.rollback)
      throw Broken("I2: a rollback, and no chain has lost more than it may");
  }
}

/// Not as it arrives, which may be late: the coordinator stands still at times.
void Cluster::see_sent(const caf::message& message) {
  if (message.match_elements<LeafReport>()) {
    if (!scenario_.async())
      progressed(message.get_as<LeafReport>(0).step);
  } else if (message.match_elements<LeaseApplied>()) {
    progressed(message.get_as<LeaseApplied>(0).lease
               / job_.options.virtual_ranks);
  }
}

void Cluster::see_values(uint32_t to, const StageValues& values) {
  const auto epoch = values.fence.epoch;
  if (epoch < crossing_epoch_)
    return; // of an attempt that was broken off
  if (epoch > crossing_epoch_)
    crossings_.clear();
  crossing_epoch_ = epoch;
  pulled_epoch_ = std::max(pulled_epoch_, epoch);
  const bool is_new =
    crossings_.insert({to, values.step, values.stream, values.virtual_rank})
      .second;
  if (!is_new && values.begin == 0)
    broken_ = "I9: what a stage, or member, made of virtual rank "
              + std::to_string(values.virtual_rank) + " of step "
              + std::to_string(values.step) + " crossed twice";
}

/// Some of the faults come while an epoch is sealed, or its members link.
void Cluster::hit_epoch() {
  auto& draw = world_.random();
  if (activated_ == 0 || triggers_.empty() || !draw.chance(15))
    return;
  triggers_.skip();
  world_.after(draw.below(1'500), [this] { inject(); });
}

void Cluster::progressed(uint64_t step) {
  step_ = std::max(step_, step);
  const auto soon = [this] { return world_.random().below(6'000); };
  triggers_.reach(step_, [&] { world_.after(soon(), [this] { inject(); }); });
  changes_.reach(step_,
                 [&] { world_.after(soon(), [this] { ask_for_change(); }); });
}

void Cluster::ask_for_change() {
  if (finished_)
    return;
  auto& draw = world_.random();
  std::vector<std::string> workers, shards;
  for (const auto& [role, member] : members_)
    (role.kind == RoleKind::shard ? shards : workers)
      .push_back(to_string(role));
  const auto what = sim::draw_change(draw, shards, [&] {
    return std::optional{sim::any(draw, workers)}; // a stage is refused
  });
  world_.note("asked for: " + *what);
  tell_coordinator(caf::make_message(ReshapeJob{*what}));
}

void Cluster::inject() {
  if (finished_)
    return;
  const auto during = phase();
  for (int tries = 0; tries < 5; ++tries) {
    const auto fault = static_cast<Fault>(world_.random().below(fault_kinds));
    if (!inject(fault))
      continue;
    world_.note("fault: " + to_string(fault));
    coverage.count(fault, during);
    ++took_effect_;
    return;
  }
  world_.after(2'000, [this] { inject(); }); // nothing could go wrong now
}

bool Cluster::inject(Fault fault) {
  auto& draw = world_.random();
  const auto now = world_.now();
  switch (fault) {
    case Fault::kill_worker:
      return kill_some(
        job_.plan.served ? job_.plan.computing() : RoleKind::worker, false);
    case Fault::kill_shard:
      return kill_some(job_.plan.owner_kind, false);
    case Fault::kill_host:
      return kill_some(job_.plan.owner_kind, true);
    case Fault::pause:
      return stand_still(sim::paused_for[0], sim::paused_for[1]);
    case Fault::stop:
      return stand_still(sim::stopped_for[0], sim::stopped_for[1]);
    case Fault::cut_link:
      return network_.cut_links(some_process(false), some_process(false)) > 0;
    case Fault::cut_control: {
      const auto one = some_process(false);
      if (is_shard(one) && fragile())
        return false;
      disturbed_until_ = std::max(disturbed_until_, now + 10'000);
      return network_.cut_control(one, coordinator_process_);
    }
    case Fault::corrupt:
      return corrupt_some();
    case Fault::one_way:
      return block_some();
    case Fault::delay:
      network_.slow(now + draw.between(sim::late_for[0], sim::late_for[1]),
                    draw.between(sim::late_by[0], sim::late_by[1]));
      return true;
    case Fault::clock:
      world_.pause(coordinator_process_,
                   now
                     + draw.between(sim::clock_ahead[0], sim::clock_ahead[1]));
      return true;
  }
  return false;
}

bool Cluster::is_shard(uint32_t process) const {
  return std::ranges::any_of(members_, [&](const auto& x) {
    return x.first.kind == RoleKind::shard && x.second.process == process;
  });
}

/// A chain has lost a replica's memory and is not whole again.
bool Cluster::fragile() {
  if (!memory_lost_)
    return false;
  for (const auto& [role, member] : members_)
    if (role.kind == RoleKind::shard && !may_lose_memory(role))
      return true;
  memory_lost_ = false;
  return false;
}

bool Cluster::kill_some(RoleKind kind, bool with_memory) {
  if (kind == RoleKind::shard && fragile())
    return false;
  std::vector<RoleId> there;
  for (const auto& [role, member] : members_)
    if (role.kind == kind && world_.alive(member.process)
        && (!with_memory || may_lose_memory(role)))
      there.push_back(role);
  if (there.empty())
    return false;
  auto& member = members_.at(there[world_.random().below(there.size())]);
  const auto process = member.process;
  if (with_memory) {
    close(std::exchange(member.memory, -1));
    memory_lost_ = kind == RoleKind::shard;
  }
  world_.kill(process, with_memory ? "its host is gone" : "killed");
  return true;
}

/// At most f of 1 + f replicas fail before a chain is repaired: all others are
/// up, and hold what this one holds, as replicas of the epoch that lasts.
bool Cluster::may_lose_memory(RoleId shard) const {
  const auto& own = members_.at(shard);
  if (has_model_part(shard.kind))
    return part_may_lose_memory(shard);
  if (scenario_.chain < 2 || !own.store || activated_ == 0
      || pulled_epoch_ != activated_ || disturbed_until_ > world_.now())
    return false;
  for (const auto& [role, member] : members_)
    if (role.kind == RoleKind::shard
        && (!member.store || !member.up || world_.paused(member.process)))
      return false;
  return sim::is_held_elsewhere(job_, members_, chains_, activated_, shard);
}

/// One of its peers has all its slices, a step behind at most; it has more than
/// it began with, by which it is known to have lost them.
bool Cluster::part_may_lose_memory(RoleId lost) const {
  const auto& own = members_.at(lost);
  if (!own.store || activated_ == 0 || pulled_epoch_ != activated_)
    return false;
  const auto slices = own.store->slices();
  const auto owners = job_.plan.owners;
  return std::ranges::any_of(members_, [&](const auto& x) {
    const auto& [role, member] = x;
    return role != lost && role.index % owners == lost.index % owners
           && member.store && std::ranges::all_of(slices, [&](uint32_t slice) {
                const auto newest = own.store->newest(slice);
                return newest > 3 && member.store->holds(slice)
                       && member.store->newest(slice) + 1 >= newest;
              });
  });
}

uint32_t Cluster::some_process(bool with_coordinator) {
  std::vector<uint32_t> there;
  for (const auto& [role, member] : members_)
    if (world_.alive(member.process))
      there.push_back(member.process);
  if (with_coordinator || there.empty())
    there.push_back(coordinator_process_);
  return there[world_.random().below(there.size())];
}

bool Cluster::stand_still(uint64_t low, uint64_t high) {
  const auto process = some_process(false);
  if (process == coordinator_process_ || (is_shard(process) && fragile()))
    return false;
  world_.note(world_.name(process) + " stands still");
  world_.pause(process, world_.now() + world_.random().between(low, high));
  return true;
}

bool Cluster::corrupt_some() {
  const auto a = some_process(false);
  const auto b = some_process(false);
  if (a == b || ((is_shard(a) || is_shard(b)) && fragile()))
    return false;
  return network_.corrupt(a, b);
}

bool Cluster::block_some() {
  const auto a = some_process(true);
  const auto b = some_process(true);
  if (a == b || ((is_shard(a) || is_shard(b)) && fragile()))
    return false;
  const auto time = world_.random().between(sim::blocked_for[0],
                                            sim::blocked_for[1]);
  const auto until = world_.now() + time;
  disturbed_until_ = std::max(disturbed_until_, until);
  world_.note("nothing gets from " + world_.name(a) + " to " + world_.name(b));
  network_.block(a, b, until);
  // The heartbeat of a control connection fails.
  if (time > sim::heartbeat_fails)
    world_.after(sim::heartbeat_fails, [this, a, b] {
      if (world_.alive(a) && world_.alive(b))
        network_.cut_control(a, b);
    });
  return true;
}

Phase Cluster::phase() const {
  for (const auto& [role, member] : members_)
    if (!member.up || !world_.alive(member.process))
      return Phase::forming;
  if (proposed_ != activated_)
    return Phase::sealing;
  return pulled_epoch_ != activated_ ? Phase::linking : Phase::stepping;
}

} // namespace troupe::real
