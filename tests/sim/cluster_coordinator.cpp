#include "actors/journal/history.hpp"
#include "actors/journal/job_journal.hpp"
#include "tests/sim/cluster_hosts.hpp"
#include "tests/sim/delays.hpp"

// The coordinator: it ends, and another one goes on from its journal.

namespace troupe::sim {
namespace {

/// Before, when, or after a proposal is no longer waited for.
constexpr uint64_t silence_ms[] = {2'000, 5'000, 8'000};
constexpr uint64_t silence_between_hosts_ms = 3'000;
constexpr uint64_t refused_again = 100'000;

} // namespace

uint64_t Cluster::silence_deadline_ms() const {
  return scenario_.hosts > 0 ? silence_between_hosts_ms
                             : silence_ms[job_id_ % 3];
}

void Cluster::start_coordinator() {
  if (runtime_.now() < disk_.unreadable_until) { // it refuses, and begins again
    runtime_.after(refused_again, [this] { start_coordinator(); });
    return;
  }
  coordinator_process_ = runtime_.new_process("coordinator", false,
                                              [this](const std::string& how) {
                                                coordinator_ended(how);
                                              });
  coordinator_system_ =
    std::make_unique<caf::actor_system>(coordinator_process_);
  CoordinatorOptions options;
  options.job_id = job_id_;
  options.actor_silence_deadline_ms = silence_deadline_ms();
  if (scenario_.kept) {
    if (!disk_.events.empty()) {
      options.past = std::make_shared<JobHistory>(read_history(disk_.events));
      options.term = options.past->term + 1;
      counted_[options.term] = options.past->steps
                               * scenario_.job->options.virtual_ranks;
    }
    // It listens once this is synced.
    const auto unix = unix_ms();
    std::vector<JournalEvent> first;
    if (!options.past)
      first.push_back(
        {0, unix, options.term, "job",
         "{\"job\":" + std::to_string(job_id_) + ",\"asked\":\"\"}"});
    first.push_back({0, unix, options.term, "coordinator", "{}"});
    disk_.add(std::move(first));
    journal_ = std::make_shared<SimulatedJournal>(coordinator_process_, disk_);
    options.journal = journal_;
  }
  runtime_.spawning(coordinator_process_);
  coordinator_ = spawn_coordinator(*coordinator_system_, scenario_.job, {},
                                   options, nullptr);
  runtime_.listens(1, coordinator_.id);
}

void Cluster::coordinator_ended(const std::string& how) {
  if (over_ || !scenario_.kept)
    return;
  journal_->crash();
  runtime_.send(supervisor_, to_coordinator_,
                letter(RoleDied{{RoleKind::coordinator, 0}, how}));
  runtime_.after(
    runtime_.random().between(successor_boot[0], successor_boot[1]), [this] {
      if (!over_)
        start_coordinator();
    });
}

coordinator_actor Cluster::line_to_coordinator(caf::actor_system& system,
                                               RoleId role,
                                               const coordinator_actor& first) {
  if (!scenario_.kept
      && (scenario_.hosts == 0 || role.kind == RoleKind::coordinator))
    return first;
  ControlLineOptions options;
  if (scenario_.hosts > 0)
    options = ClusterHosts{*this}.line(system.process());
  options.first = first;
  // The simulator knows who listens at a port.
  options.address = scenario_.standby ? "host:1,host:2" : "host:1";
  options.role = role;
  if (scenario_.hosts == 0 && !scenario_.rough) // a slow disk takes longer
    options.deadline = std::chrono::milliseconds{max_away / 1'000};
  return spawn_control_line(system, std::move(options));
}

/// Of a mode that it is not in, as far as members know.
void Cluster::ask_for_switch() {
  if (over_ || !runtime_.alive(coordinator_process_))
    return;
  auto& draw = runtime_.random();
  const auto now = to_string(periods_.now());
  auto mode = now;
  while (mode == now) {
    const auto which = draw.below(5);
    mode = which < 2   ? "sync"
           : which < 4 ? "async"
                       : "staleness:" + std::to_string(draw.below(4));
  }
  runtime_.note("asked for: " + mode);
  runtime_.send(supervisor_, coordinator_.id, letter(SwitchConsistency{mode}));
}

bool Cluster::kill_coordinator() {
  if (!scenario_.kept || disk_.full || !runtime_.alive(coordinator_process_))
    return false;
  auto& draw = runtime_.random();
  if (draw.chance(30))
    kill_some(draw.chance(50) ? RoleKind::worker : RoleKind::shard, false);
  runtime_.kill(coordinator_process_, "killed");
  return true;
}

bool Cluster::slow_disk() {
  auto& draw = runtime_.random();
  const auto until = runtime_.now() + draw.between(50'000, 1'000'000);
  if (scenario_.standby)
    voter_disk(static_cast<uint32_t>(draw.below(3))).slow_until = until;
  else
    disk_.slow_until = until;
  return scenario_.kept;
}

} // namespace troupe::sim
