#include "actors/job_runner.hpp"

#include "actors/actor_node.hpp"
#include "actors/checkpoint_keeper.hpp"
#include "actors/coordinator.hpp"
#include "actors/error_line.hpp"
#include "actors/node_supervisor.hpp"
#include "actors/role_host.hpp"
#include "kernels/error.hpp"
#include "kernels/replica.hpp"
#include "monitoring/metrics.hpp"

#include <sys/random.h>

#include <atomic>
#include <cstring>
#include <future>
#include <memory>

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
constexpr uint64_t coordinator_start_deadline_ms = 60'000;

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
      [&](const caf::down_msg&) {
        result = {stopping ? 130 : 1, "the coordinator died", ""};
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
};

LocalCoordinator start_coordinator(caf::actor_system& system,
                                   const RunOptions& options,
                                   const JobData& data) {
  LocalCoordinator started;
  auto wanted = options.job;
  wanted.evaluates = data.eval != nullptr;
  auto checkpoints = start_checkpoints(options.checkpoints);
  started.lock = checkpoints.lock;
  wanted.resume_from = checkpoints.resume_from;
  started.job = std::make_shared<const Job>(std::move(wanted), *data.train);
  const auto fingerprint = data_fingerprint(*started.job, *data.train);
  check_resumed(*started.job, fingerprint, checkpoints.notes);
  std::shared_ptr<MetricExporter> exporter;
  if (!options.metrics_address.empty()) {
    try {
      exporter = std::make_shared<MetricExporter>(options.metrics_address);
    } catch (const std::runtime_error& failure) {
      throw InputError(failure.what());
    }
  }
  started.job_id = make_job_id();
  CoordinatorOptions how;
  how.job_id = started.job_id;
  how.save = options.save;
  how.checkpoints = options.checkpoints;
  how.data_fingerprint = fingerprint;
  how.first_notes = checkpoints.notes;
  how.isa = select_isa(options.job.isa);
  started.actor = spawn_coordinator(system, started.job, data, how, exporter);
  return started;
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
  ActorConfig config{Credentials{}};
  caf::actor_system system{config};
  caf::scoped_actor self{system};
  auto coordinator = start_coordinator(system, options, data);
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

RunResult run_coordinator_process(const RunOptions& options,
                                  const JobData& data,
                                  const CoordinatorProcess& process) {
  ActorConfig config{load_credentials(process.certificates)};
  caf::actor_system system{config};
  caf::scoped_actor self{system};
  auto coordinator = start_coordinator(system, options, data);
  try {
    auto address =
      publish(system, caf::actor_cast<caf::strong_actor_ptr>(coordinator.actor),
              process.listen);
    if (options.events.note)
      options.events.note(listening_prefix + address);
  } catch (...) {
    caf::anon_send_exit(coordinator.actor, caf::exit_reason::user_shutdown);
    throw;
  }
  auto result = watch(self, coordinator.actor, options.events);
  if (options.events.over)
    options.events.over(result);
  // It leaves when roles and supervisor elsewhere have read the end. This
  // process's own observer goes first.
  self->monitor(coordinator.actor);
  self->send(coordinator.actor, Detach{});
  self->receive([](const caf::down_msg&) {},
                caf::after(std::chrono::milliseconds{end_deadline_ms * 5}) >>
                  [] {});
  return result;
}

namespace {

/// What the coordinator's process said first: its address, or how it failed.
struct CoordinatorStart {
  std::string address;
  RunResult failure;
};

CoordinatorStart start_coordinator_process(ChildProcesses& processes,
                                           const LaunchOptions& launch,
                                           const RunEvents& events) {
  auto promise = std::make_shared<std::promise<CoordinatorStart>>();
  auto answered = std::make_shared<std::atomic<bool>>(false);
  auto future = promise->get_future();
  std::vector<std::string> arguments{launch.program};
  arguments.insert(arguments.end(), launch.coordinator_arguments.begin(),
                   launch.coordinator_arguments.end());
  processes.start(
    arguments, -1,
    [promise, answered, on_line = launch.on_line](const std::string& line) {
      if (line.starts_with(listening_prefix) && !answered->exchange(true))
        promise->set_value({line.substr(strlen(listening_prefix)), {}});
      else if (on_line)
        on_line("coordinator", line);
    },
    [promise, answered](const ChildProcesses::Exit& exit) {
      if (answered->exchange(true))
        return;
      CoordinatorStart start;
      start.failure = {exit.status > 0 ? exit.status : 1,
                       "the coordinator ended with " + exit.describe(), ""};
      for (const auto& line : exit.last_lines)
        if (line.starts_with("troupe: "))
          start.failure.line = line.substr(8);
      promise->set_value(start);
    });
  const auto deadline =
    std::chrono::steady_clock::now()
    + std::chrono::milliseconds{coordinator_start_deadline_ms};
  while (future.wait_for(watch_period) != std::future_status::ready) {
    if (auto why = events.stop ? events.stop() : ""; !why.empty())
      return {"", {130, why + " before the first step: nothing was saved", ""}};
    if (std::chrono::steady_clock::now() > deadline)
      throw InputError("the coordinator did not start within "
                       + std::to_string(coordinator_start_deadline_ms / 1000)
                       + " s");
  }
  return future.get();
}

} // namespace

RunResult run_processes(const RunOptions& options,
                        const LaunchOptions& launch) {
  auto processes = std::make_shared<ChildProcesses>();
  auto start = start_coordinator_process(*processes, launch, options.events);
  if (start.address.empty())
    return start.failure;
  ActorConfig config{load_credentials(launch.certificates)};
  caf::actor_system system{config};
  caf::scoped_actor self{system};
  auto coordinator = caf::actor_cast<coordinator_actor>(
    connect(system, start.address, end_deadline_ms));
  if (options.events.note)
    options.events.note("coordinator: " + start.address + ", certificates "
                        + launch.certificates);
  // The plan needs no data: the roles are the same for any number of samples.
  Job job{options.job, options.job.global_batch};
  SupervisorOptions supervise;
  supervise.roles = roles_of(job.plan);
  supervise.processes = processes;
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
  return result;
}

} // namespace troupe
