#include "actors/job_runner.hpp"

#include "actors/actor_node.hpp"
#include "actors/checkpoint_keeper.hpp"
#include "actors/control_line.hpp"
#include "actors/ends_with_scope.hpp"
#include "actors/error_line.hpp"
#include "actors/journal/history.hpp"
#include "actors/journal/journal_writer.hpp"
#include "actors/kept_coordinator.hpp"
#include "actors/node_supervisor.hpp"
#include "actors/role_host.hpp"
#include "actors/run_journal.hpp"
#include "actors/voting/proposer.hpp"
#include "actors/voting/voter.hpp"
#include "kernels/error.hpp"
#include "kernels/replica.hpp"
#include "monitoring/metrics.hpp"

#include <sys/random.h>

#include <atomic>
#include <memory>
#include <thread>

namespace troupe {
namespace {

/// A step may take long, and the switch waits for one.
constexpr std::chrono::seconds switch_deadline{60};
/// Roles may have to be started, and slices to be copied.
constexpr std::chrono::seconds reshape_deadline{300};
constexpr auto watch_period = std::chrono::milliseconds{100};
/// How long roles may take to end by themselves after the run.
constexpr uint64_t end_deadline_ms = 1'000;
constexpr uint64_t connect_deadline_ms = 5'000;
constexpr std::chrono::seconds publish_deadline{5};

uint64_t make_job_id() {
  uint64_t id = 0;
  if (getrandom(&id, sizeof id, 0) != sizeof id)
    id = static_cast<uint64_t>(
      std::chrono::system_clock::now().time_since_epoch().count());
  return id | 1;
}

/// Errors: InputError, the coordinator's line.
std::string ask_to_switch(caf::scoped_actor& self,
                          const coordinator_actor& coordinator,
                          const std::string& mode) {
  std::string answer;
  std::string refused;
  self->request(coordinator, switch_deadline, SwitchConsistency{mode})
    .receive([&](const Note& x) { answer = x.line; },
             [&](const caf::error& why) {
               refused = why == caf::sec::request_timeout
                           ? "not within "
                               + std::to_string(switch_deadline.count()) + " s"
                           : "the coordinator refused: " + caf::to_string(why);
             });
  if (!refused.empty())
    throw InputError("consistency " + mode + ": " + refused);
  return answer;
}

void switch_in(caf::scoped_actor& self, const coordinator_actor& coordinator,
               const std::string& mode, const RunEvents& events) {
  try {
    ask_to_switch(self, coordinator, mode); // the run says so itself
  } catch (const InputError& refused) {
    if (events.note)
      events.note(refused.what());
  }
}

/// What the coordinator has against it, or that it does not answer.
std::string reason_of(const caf::error& why, std::chrono::seconds deadline) {
  if (why == caf::sec::request_timeout)
    return "not within " + std::to_string(deadline.count())
           + " s; it may still happen";
  return line_of(why);
}

/// A wish to change the run, made while it is watched.
class ReshapeWish {
public:
  explicit ReshapeWish(const RunEvents& events) : events_(events) {}

  void look(caf::scoped_actor& self, const coordinator_actor& coordinator) {
    if (!events_.reshape || *under_way_)
      return;
    auto what = events_.reshape();
    if (what.empty())
      return;
    *under_way_ = true;
    auto answered = [under_way = under_way_, reshaped = events_.reshaped](
                      bool done, const std::string& line) {
      *under_way = false;
      if (reshaped)
        reshaped(done, line);
    };
    self->system().spawn(
      [coordinator, what, answered](caf::event_based_actor* asker) {
        asker->monitor(coordinator);
        asker->set_down_handler([asker, answered](const caf::down_msg&) {
          answered(false, "the run ended before");
          asker->quit();
        });
        asker->request(coordinator, reshape_deadline, ReshapeJob{what})
          .then(
            [asker, answered](const Note& x) {
              answered(true, x.line);
              asker->quit();
            },
            [asker, answered, what](const caf::error& why) {
              answered(false, what + ": " + reason_of(why, reshape_deadline));
              asker->quit();
            });
      });
  }

private:
  const RunEvents& events_;
  std::shared_ptr<std::atomic<bool>> under_way_ =
    std::make_shared<std::atomic<bool>>(false);
};

/// Follows a run from outside the coordinator until it is over. `again` is a
/// second wish to stop: it does not wait any more.
RunResult watch(caf::scoped_actor& self, const coordinator_actor& coordinator,
                const RunEvents& events) {
  RunResult result;
  bool over = false;
  bool stopping = false;
  ReshapeWish wish{events};
  self->monitor(coordinator);
  self->send(coordinator, Attach{false});
  while (!over) {
    self->receive(
      [&](const Progress& x) {
        if (events.progress)
          events.progress(x);
      },
      [&](const EpochEnd& x) {
        if (events.epoch)
          events.epoch(x);
      },
      [&](const Note& x) {
        if (events.note)
          events.note(x.line);
      },
      [&](const Finished& x) {
        result = {x.status, x.line, x.summary};
        over = true;
      },
      [&](const caf::down_msg& down) {
        result = {stopping ? 130 : 1,
                  down.reason ? line_of(down.reason) : "the coordinator died",
                  ""};
        over = true;
      },
      caf::after(watch_period) >> [] {});
    if (!stopping && events.stop)
      if (auto why = events.stop(); !why.empty()) {
        stopping = true;
        self->send(coordinator, StopRequest{why});
      }
    if (!over && !stopping && events.consistency)
      if (auto mode = events.consistency(); !mode.empty())
        switch_in(self, coordinator, mode, events);
    if (!over && !stopping)
      wish.look(self, coordinator);
  }
  return result;
}

struct LocalCoordinator {
  std::shared_ptr<const Job> job;
  uint64_t job_id = 0;
  coordinator_actor actor;
  std::shared_ptr<CheckpointLock> lock; ///< of the folder of checkpoints
  std::string metrics_address;          ///< bound; empty: none
};

std::shared_ptr<MetricExporter> make_exporter(const std::string& address) {
  try {
    return address.empty() ? nullptr
                           : std::make_shared<MetricExporter>(address);
  } catch (const std::runtime_error& failure) {
    throw InputError(failure.what());
  }
}

/// At the address of the coordinator before, so that its observers find it;
/// elsewhere where that one still has it, being stopped, or on another host.
std::shared_ptr<MetricExporter> make_exporter_again(const std::string& address,
                                                    const RunOptions& options) {
  try {
    return make_exporter(address);
  } catch (const InputError&) {
    return make_exporter(options.metrics_address);
  }
}

LocalCoordinator
start_coordinator(caf::actor_system& system, const RunOptions& options,
                  const JobData& data, const RunJournal& journal,
                  std::chrono::steady_clock::time_point began) {
  LocalCoordinator started;
  auto wanted = options.job;
  wanted.evaluates = data.eval != nullptr;
  const auto& past = journal.past;
  auto checkpoints = start_checkpoints(options.checkpoints, past != nullptr);
  started.lock = checkpoints.lock;
  // One that follows goes on where the first one began.
  wanted.resume_from = past ? past->resume_from : checkpoints.resume_from;
  started.job = std::make_shared<const Job>(std::move(wanted), *data.train);
  const auto fingerprint = data_fingerprint(*started.job, *data.train);
  check_resumed(*started.job, fingerprint, checkpoints.notes);
  auto exporter = past ? make_exporter_again(past->metrics_address, options)
                       : make_exporter(options.metrics_address);
  started.metrics_address = exporter ? exporter->address() : std::string{};
  started.job_id = journal.job;
  CoordinatorOptions how;
  how.job_id = started.job_id;
  how.term = journal.term;
  how.journal = journal.sink;
  how.past = past;
  how.began = began;
  how.save = options.save;
  how.checkpoints = options.checkpoints;
  how.data_fingerprint = fingerprint;
  how.first_notes = checkpoints.notes;
  how.isa = select_isa(options.job.isa);
  started.actor = spawn_coordinator(system, started.job, data, how, exporter);
  return started;
}

std::function<void(const std::string&)>
say_broken_journal(const RunEvents& events) {
  return [note = events.note](const std::string& line) {
    if (note)
      note(line);
  };
}

/// The port of the coordinator before may still be closing.
std::string publish_again(caf::actor_system& system,
                          const caf::strong_actor_ptr& whom,
                          const std::string& address) {
  const auto deadline = std::chrono::steady_clock::now() + publish_deadline;
  for (;;)
    try {
      return publish(system, whom, address);
    } catch (const InputError&) {
      if (std::chrono::steady_clock::now() > deadline)
        throw;
      std::this_thread::sleep_for(std::chrono::milliseconds{20});
    }
}

std::vector<RoleId> roles_of(const Plan& plan) {
  std::vector<RoleId> roles;
  for (auto kind : {RoleKind::shard, RoleKind::worker})
    for (const auto& role : plan.of_kind(kind))
      roles.push_back(role.role);
  return roles;
}

} // namespace

std::string switch_consistency(const std::string& coordinator,
                               const std::string& certificates,
                               const std::string& mode) {
  ActorConfig config{load_credentials(certificates)};
  caf::actor_system system{config};
  caf::scoped_actor self{system};
  return ask_to_switch(self,
                       caf::actor_cast<coordinator_actor>(
                         connect(system, coordinator, connect_deadline_ms)),
                       mode);
}

std::string reshape_job(const std::string& coordinator,
                        const std::string& certificates,
                        const std::string& what) {
  ActorConfig config{load_credentials(certificates)};
  caf::actor_system system{config};
  caf::scoped_actor self{system};
  std::string answer;
  std::string refused;
  self
    ->request(caf::actor_cast<coordinator_actor>(
                connect(system, coordinator, connect_deadline_ms)),
              reshape_deadline, ReshapeJob{what})
    .receive([&](const Note& x) { answer = x.line; },
             [&](const caf::error& why) {
               refused = reason_of(why, reshape_deadline);
             });
  if (!refused.empty())
    throw InputError(what + ": " + refused);
  return answer;
}

RunResult run_in_process(const RunOptions& options, const JobData& data) {
  const auto journal = open_journal(options.journal, false, make_job_id(),
                                    to_json(options.job),
                                    say_broken_journal(options.events));
  ActorConfig config{Credentials{}};
  caf::actor_system system{config};
  caf::scoped_actor self{system};
  auto coordinator = start_coordinator(system, options, data, journal,
                                       options.began);
  SupervisorOptions supervise;
  supervise.roles = roles_of(coordinator.job->plan);
  supervise.job = coordinator.job;
  supervise.data = data;
  supervise.job_id = coordinator.job_id;
  auto supervisor = spawn_node_supervisor(system, coordinator.actor,
                                          std::move(supervise));
  auto result = watch(self, coordinator.actor, options.events);
  caf::anon_send_exit(supervisor, caf::exit_reason::user_shutdown);
  caf::anon_send_exit(coordinator.actor, caf::exit_reason::user_shutdown);
  return result;
}

namespace {

/// Opens the journal, alone or as one of its voters. Null: told to stop before
/// it led.
std::shared_ptr<const RunJournal>
open_as_one_of(caf::actor_system& system, const RunOptions& options,
               const CoordinatorProcess& process,
               std::shared_ptr<Proposer>& proposer, EndsWithScope& voter) {
  const auto job_id = make_job_id();
  const auto asked = to_json(options.job);
  if (process.voters.empty())
    return std::make_shared<RunJournal>(
      open_journal(options.journal, true, job_id, asked,
                   say_broken_journal(options.events)));
  ProposerOptions how;
  how.voters = process.voters;
  how.own = process.voter;
  how.own_voter = spawn_voter(system, options.journal);
  voter.actor = caf::actor_cast<caf::strong_actor_ptr>(how.own_voter);
  publish_again(system, voter.actor, process.voters.at(process.voter));
  proposer = std::make_shared<Proposer>(system, std::move(how));
  return lead_journal(proposer, job_id, asked, options.events.stop);
}

/// Where the coordinator before listened, if roles know no other place.
std::string publish_coordinator(caf::actor_system& system,
                                const coordinator_actor& coordinator,
                                const RunJournal& journal,
                                const CoordinatorProcess& process) {
  const auto actor = caf::actor_cast<caf::strong_actor_ptr>(coordinator);
  const bool known = journal.past && !journal.past->address.empty();
  return known && process.voters.empty()
           ? publish_again(system, actor, journal.past->address)
           : publish(system, actor, process.listen);
}

} // namespace

RunResult run_coordinator_process(const RunOptions& options,
                                  const JobData& data,
                                  const CoordinatorProcess& process) {
  ActorConfig config{load_credentials(process.certificates)};
  caf::actor_system system{config};
  caf::scoped_actor self{system};
  EndsWithScope voter;
  std::shared_ptr<Proposer> proposer;
  const auto journal = open_as_one_of(system, options, process, proposer,
                                      voter);
  if (!journal)
    return {130, "told to stop while another coordinator led", ""};
  if (journal->past && journal->past->over)
    return {0, "", ""}; // by the one that led
  auto coordinator = start_coordinator(
    system, options, data, *journal,
    proposer ? std::chrono::steady_clock::now() : options.began);
  const auto deposed = std::make_shared<std::atomic<bool>>(false);
  if (proposer)
    proposer->on_deposed([deposed, actor = coordinator.actor] {
      *deposed = true;
      caf::anon_send_exit(actor, caf::exit_reason::kill);
    });
  try {
    const auto address = publish_coordinator(system, coordinator.actor,
                                             *journal, process);
    journal->listens(address, coordinator.metrics_address,
                     coordinator.job->options.resume_from);
    if (options.events.note)
      options.events.note(listening_prefix + address);
  } catch (...) {
    caf::anon_send_exit(coordinator.actor, caf::exit_reason::user_shutdown);
    throw;
  }
  auto result = watch(self, coordinator.actor, options.events);
  if (*deposed)
    return {deposed_status, "another coordinator has taken over", ""};
  if (options.events.over)
    options.events.over(result);
  // It leaves when roles and supervisor elsewhere have read the end. This
  // process's own observer goes first.
  self->monitor(coordinator.actor);
  self->send(coordinator.actor, Detach{});
  self->receive([](const caf::down_msg&) {},
                caf::after(std::chrono::milliseconds{end_deadline_ms * 5}) >>
                  [] {});
  if (proposer)
    proposer->settle(std::chrono::milliseconds{end_deadline_ms});
  return result;
}

RunResult run_processes(const RunOptions& options,
                        const LaunchOptions& launch) {
  auto processes = std::make_shared<ChildProcesses>();
  ActorConfig config{load_credentials(launch.certificates)};
  caf::actor_system system{config};
  caf::scoped_actor self{system};
  EndsWithScope voter;
  if (!launch.voter.empty()) {
    voter.actor = caf::actor_cast<caf::strong_actor_ptr>(
      spawn_voter(system, launch.journal));
    publish(system, voter.actor, launch.voter);
  }
  std::vector kept{std::make_shared<KeptCoordinator>(
    processes, launch, launch.coordinator_arguments)};
  auto start = kept.front()->start(options.events);
  if (start.address.empty())
    return start.failure;
  if (!launch.standby_arguments.empty()) {
    kept.push_back(std::make_shared<KeptCoordinator>(processes, launch,
                                                     launch.standby_arguments));
    kept.back()->begin();
    start.address = launch.coordinators;
  }
  ControlLineOptions line;
  line.first = caf::actor_cast<coordinator_actor>(
    connect(system, start.address, end_deadline_ms));
  line.address = start.address;
  line.role.kind = RoleKind::coordinator;
  auto coordinator = spawn_control_line(system, std::move(line));
  if (options.events.note)
    options.events.note("coordinator: " + start.address + ", certificates "
                        + launch.certificates);
  // The plan needs no data: the roles are the same for any number of samples.
  Job job{options.job, options.job.global_batch};
  SupervisorOptions supervise;
  supervise.roles = roles_of(job.plan);
  supervise.processes = processes;
  supervise.coordinators = kept;
  supervise.program = launch.program;
  supervise.arguments = {"--coordinator", start.address, "--certificates",
                         launch.certificates};
  supervise.on_line = [&launch](RoleId role, const std::string& line) {
    if (launch.on_line)
      launch.on_line(to_string(role), line);
  };
  auto supervisor = spawn_node_supervisor(system, coordinator,
                                          std::move(supervise));
  auto result = watch(self, coordinator, options.events);
  self->send(coordinator, Detach{});
  caf::anon_send_exit(supervisor, caf::exit_reason::user_shutdown);
  processes->wait_all(end_deadline_ms);
  for (const auto& one : kept)
    one->watch({});
  caf::anon_send_exit(coordinator, caf::exit_reason::user_shutdown);
  return result;
}

} // namespace troupe
