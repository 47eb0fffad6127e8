#include "actors/journal/history.hpp"
#include "actors/journal/job_journal.hpp"
#include "actors/voting/voter.hpp"
#include "kernels/base/error.hpp"
#include "tests/sim/cluster.hpp"
#include "tests/sim/delays.hpp"
#include "tests/sim/voter_disk.hpp"

#include <algorithm>

// Two coordinators, of which a majority of three voters elects one: what
// run_coordinator.cpp does in a process, without waiting.

namespace troupe::sim {
namespace {

constexpr uint32_t voters = 3;
/// Of the first election.
constexpr uint64_t standby_patience = 10'000'000;
/// How long a coordinator that has left waits until that is written down.
constexpr uint64_t settle_deadline = 1'000'000;
/// The heartbeat of a connection fails.
constexpr uint64_t heartbeat = 2'000'000;
/// Voters vote again 0.7 s after they have heard of a leader; one that hears of
/// no majority steps down after 5 s.
constexpr uint64_t stop[2] = {500'000, 8'000'000};
constexpr uint64_t apart[2] = {50'000, 8'000'000};
/// So that the short journals of simulated runs are read in many goes.
constexpr size_t page_events = 1;
/// And folded, which a run of days would be.
constexpr LogFolding often{3, {2, 1}};
/// How a process ends that finds the run's end in the journal.
const std::string found_over = "the run is over";

uint16_t voter_port(uint32_t index) {
  return static_cast<uint16_t>(11 + index);
}

std::string voter_path(uint32_t index) {
  return "no file: voter " + std::to_string(index);
}

/// What the actor takes of which Proposer is the face.
class VotersJournal : public JournalSink {
public:
  using Decided = std::function<void(const JournalEvent& event)>;

  VotersJournal(caf::actor proposer, std::shared_ptr<const bool> hears,
                Decided decided)
    : proposer_(proposer),
      hears_(std::move(hears)),
      decided_(std::move(decided)) {}

  void append(JournalEvent event, std::function<void()> synced) override {
    Completion then;
    if (synced)
      then.then = [decided = decided_, event, synced = std::move(synced)] {
        decided(event);
        synced();
      };
    caf::anon_send(proposer_, std::move(event), std::move(then));
  }

  bool leads() const override { return *hears_; }

private:
  caf::actor proposer_;
  std::shared_ptr<const bool> hears_; ///< from a majority
  Decided decided_;
};

/// Voters whose disks have the epoch, whatever crashes now.
uint32_t count_with_epoch(const Fence& fence) {
  uint32_t count = 0;
  for (uint32_t i = 0; i < voters; ++i)
    count +=
      VoterDisk::at(voter_path(i)).has_epoch(fence.term, fence.epoch) ? 1 : 0;
  return count;
}

} // namespace

// --- processes --------------------------------------------------------------

/// The standby begins when the first one leads, as under a launcher.
void Cluster::start_standby() {
  VoterDisk::clear();
  start_third_voter();
  start_candidate(0);
  const auto deadline = runtime_.now() + standby_patience;
  while (!coordinator_)
    if (!runtime_.step() || runtime_.now() > deadline)
      throw Violation("I11", "no coordinator is elected");
  runtime_.after(runtime_.random().between(successor_boot[0],
                                           successor_boot[1]),
                 [this] { start_candidate(1); });
}

void Cluster::start_third_voter() {
  third_voter_ =
    runtime_.new_process("voter", false, [this](const std::string&) {
      VoterDisk::at(voter_path(2)).crash();
      runtime_.after(runtime_.random().between(successor_boot[0],
                                               successor_boot[1]),
                     [this] { start_third_voter(); });
    });
  third_system_ = std::make_unique<caf::actor_system>(third_voter_);
  try {
    runtime_.listens(
      voter_port(2),
      spawn_voter(*third_system_, voter_path(2), {}, page_events, often).id);
  } catch (const InputError& failure) {
    runtime_.kill(third_voter_, failure.what());
  }
}

void Cluster::start_candidate(uint32_t index) {
  auto& candidate = candidates_[index];
  candidate.coordinator = {};
  candidate.process = runtime_.new_process(
    index == 0 ? "coordinator A" : "coordinator B", false,
    [this, index](const std::string& how) { candidate_ended(index, how); });
  candidate.system = std::make_unique<caf::actor_system>(candidate.process);
  ProposerOptions options;
  for (uint32_t i = 0; i < voters; ++i)
    options.voters.push_back("host:" + std::to_string(voter_port(i)));
  options.own = index;
  try {
    options.own_voter = spawn_voter(*candidate.system, voter_path(index), {},
                                    page_events, often);
  } catch (const InputError& failure) {
    return runtime_.kill(candidate.process, failure.what());
  }
  options.folding = often;
  options.seed = static_cast<uint32_t>(runtime_.random().next());
  runtime_.listens(voter_port(index), options.own_voter.id);
  ProposerCalls calls;
  calls.leads = [this, index, process = candidate.process](
                  std::shared_ptr<const Elected> by) {
    elected(index, process, *by);
  };
  calls.deposed = [this, process = candidate.process] {
    runtime_.after(0, [this, process] {
      runtime_.kill(process, "another coordinator has taken over");
    });
  };
  candidate.hears = std::make_shared<bool>(true);
  calls.hears = [hears = candidate.hears](bool now) { *hears = now; };
  candidate.proposer = spawn_proposer(*candidate.system, std::move(options),
                                      std::move(calls));
}

void Cluster::candidate_ended(uint32_t index, const std::string& how) {
  VoterDisk::at(voter_path(index)).crash();
  candidates_[index].coordinator = {};
  if (over_ || how == found_over)
    return;
  runtime_.send(supervisor_, to_coordinator_,
                letter(RoleDied{{RoleKind::coordinator, 0}, how}));
  runtime_.after(runtime_.random().between(successor_boot[0],
                                           successor_boot[1]),
                 [this, index] {
                   if (!over_)
                     start_candidate(index);
                 });
}

/// PROTOCOL 15: a term has one leader, which knows all that was decided.
void Cluster::elected(uint32_t index, uint32_t process,
                      const Elected& elected) {
  runtime_.note(runtime_.name(process) + " is elected in term "
                + std::to_string(elected.term));
  if (!elected_.emplace(elected.term, process).second)
    throw Violation("I4",
                    "two are elected in term " + std::to_string(elected.term));
  auto missing = decided_;
  for (const auto& event : elected.events)
    missing.erase({event.term, event.kind, event.body});
  for (const auto& [term, kind, body] : missing)
    if (term < elected.term)
      throw Violation("I4", "the leader of term " + std::to_string(elected.term)
                              + " does not know what was decided in term "
                              + std::to_string(term) + ": " + kind + ' '
                              + body);
  std::shared_ptr<const JobHistory> past;
  if (!elected.events.empty())
    past = std::make_shared<JobHistory>(read_history(elected.events));
  if (past && past->over) {
    runtime_.after(0, [this, process] { runtime_.kill(process, found_over); });
    return;
  }
  const auto sink = std::make_shared<VotersJournal>(
    candidates_[index].proposer, candidates_[index].hears,
    [this](const JournalEvent& event) {
      decided_.emplace(event.term, event.kind, event.body);
    });
  JobJournal journal{sink, elected.term};
  if (!past)
    journal.job(job_id_, "");
  journal.began(past != nullptr,
                [this, index, process, term = elected.term, sink, past] {
                  runtime_.after(0, [this, index, process, term, sink, past] {
                    if (runtime_.alive(process))
                      lead(index, term, sink, past);
                  });
                });
}

void Cluster::lead(uint32_t index, uint64_t term,
                   const std::shared_ptr<JournalSink>& journal,
                   std::shared_ptr<const JobHistory> past) {
  auto& candidate = candidates_[index];
  const auto process = candidate.process;
  CoordinatorOptions options;
  options.job_id = job_id_;
  options.term = term;
  options.actor_silence_deadline_ms = silence_deadline_ms();
  options.journal = journal;
  options.past = std::move(past);
  if (options.past)
    counted_[term] = options.past->steps * scenario_.job->options.virtual_ranks;
  runtime_.spawning(process);
  candidate.coordinator = spawn_coordinator(*candidate.system, scenario_.job,
                                            {}, options, nullptr);
  JobJournal{journal, term}.address("host:" + std::to_string(index + 1), "",
                                    "");
  const auto address = candidate.coordinator.id;
  runtime_.listens(static_cast<uint16_t>(index + 1), address);
  led_.insert(process);
  coordinator_ = candidate.coordinator;
  coordinator_process_ = process;
  // Once it has left, its process waits until that is decided.
  runtime_.outlives(address, [this, process, proposer = candidate.proposer] {
    const auto leave = [this, process] {
      runtime_.kill(process, "it has left");
    };
    runtime_.after(settle_deadline, leave);
    caf::anon_send(proposer,
                   Completion{[this, leave] { runtime_.after(0, leave); }});
  });
}

coordinator_actor Cluster::who_leads() {
  std::vector<coordinator_actor> there;
  for (const auto& candidate : candidates_)
    if (candidate.coordinator)
      there.push_back(candidate.coordinator);
  return there.empty() ? coordinator_actor{}
                       : there[runtime_.random().below(there.size())];
}

VoterDisk& Cluster::voter_disk(uint32_t index) {
  return VoterDisk::at(voter_path(index));
}

// --- what must hold ---------------------------------------------------------

void Cluster::check_sent(uint32_t from, const Letter& letter) {
  if (const auto* activation = letter.as<Activate>()) {
    const auto& fence = activation->fence;
    if (count_with_epoch(fence) <= voters / 2)
      throw Violation("I4", "epoch " + std::to_string(fence.epoch)
                              + " begins, and no majority of voters knows");
  } else if (const auto* sealed = letter.as<Sealed>()) {
    auto& heard = heard_terms_[from];
    if (sealed->fence.term < heard)
      throw Violation("I4", to_string(sealed->role) + " seals for term "
                              + std::to_string(sealed->fence.term)
                              + " after term " + std::to_string(heard));
    heard = sealed->fence.term;
  }
}

/// Who said that the run is over ends; once that is decided, the other one.
void Cluster::check_standby_ended() const {
  const auto runs = [this](uint32_t process) {
    return runtime_.alive(process) && !runtime_.paused(process);
  };
  if (runs(finisher_))
    throw Violation("I12", "the coordinator does not end");
  for (const auto& candidate : candidates_)
    if (end_is_decided() && runs(candidate.process))
      throw Violation("I12", "the standby does not end");
}

/// Otherwise the launcher ends who has not heard of it.
bool Cluster::end_is_decided() const {
  uint32_t knows = 0;
  for (uint32_t i = 0; i < voters; ++i)
    knows += VoterDisk::at(voter_path(i)).knows_end() ? 1 : 0;
  return knows > voters / 2;
}

// --- faults -----------------------------------------------------------------

bool Cluster::kill_standby() {
  for (const auto& candidate : candidates_)
    if (candidate.process != coordinator_process_
        && runtime_.alive(candidate.process)) {
      runtime_.kill(candidate.process, "killed");
      return true;
    }
  return false;
}

bool Cluster::kill_voter() {
  if (!runtime_.alive(third_voter_))
    return false;
  runtime_.kill(third_voter_, "killed");
  return true;
}

bool Cluster::stop_leader() {
  if (!runtime_.alive(coordinator_process_))
    return false;
  runtime_.note(runtime_.name(coordinator_process_) + " stands still");
  runtime_.pause(coordinator_process_,
                 runtime_.now() + runtime_.random().between(stop[0], stop[1]));
  return true;
}

/// Both ways or one; now and then some member is lost to it as well.
bool Cluster::split() {
  auto& draw = runtime_.random();
  const auto index = draw.below(candidates_.size());
  const auto process = candidates_[index].process;
  const auto other = candidates_[1 - index].process;
  if (!runtime_.alive(process) || !runtime_.alive(other))
    return false;
  std::vector<uint32_t> from{other, third_voter_};
  if (draw.chance(30))
    from.erase(from.begin() + static_cast<std::ptrdiff_t>(draw.below(2)));
  if (draw.chance(50)) {
    const auto member = some_process(false);
    if (!guarded(member))
      from.push_back(member);
  }
  const auto way = draw.below(3);
  const auto time = draw.between(apart[0], apart[1]);
  const auto until = runtime_.now() + time;
  for (auto peer : from) {
    runtime_.note(runtime_.name(process) + " and " + runtime_.name(peer)
                  + " are split: " + std::to_string(way));
    if (way != 1)
      runtime_.block(process, peer, until);
    if (way != 2)
      runtime_.block(peer, process, until);
    if (time > heartbeat)
      runtime_.after(heartbeat, [this, process, peer] {
        if (runtime_.alive(process) && runtime_.alive(peer))
          runtime_.cut_control(process, peer);
      });
  }
  blocked_until_ = std::max(blocked_until_, until);
  return true;
}

} // namespace troupe::sim
