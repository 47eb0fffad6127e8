#include "actors/launch/job_runner.hpp"

#include "actors/certificates/certificate_renewal.hpp"
#include "actors/compute/leaf_computer.hpp"
#include "actors/control/actor_node.hpp"
#include "actors/control/control_line.hpp"
#include "actors/control/metrics_guard.hpp"
#include "actors/control/refused_members.hpp"
#include "actors/job/layout_choice.hpp"
#include "actors/job/memory_need.hpp"
#include "actors/launch/kept_coordinator.hpp"
#include "actors/launch/local_coordinator.hpp"
#include "actors/launch/local_processes.hpp"
#include "actors/launch/role_supervisor.hpp"
#include "actors/launch/run_watch.hpp"
#include "actors/process/stop_status.hpp"
#include "actors/sockets/endpoint.hpp"
#include "actors/voting/voter.hpp"
#include "actors/wire/ends_with_scope.hpp"

#include <algorithm>
#include <memory>
#include <optional>

namespace troupe {
namespace {

/// How long roles may take to end by themselves after the run.
constexpr uint64_t end_deadline_ms = 1'000;
/// How long a coordinator that listens may take to answer.
constexpr uint64_t answer_deadline_ms = 10'000;

std::vector<RoleId> roles_of(const Plan& plan) {
  std::vector<RoleId> roles;
  for (auto kind : {RoleKind::reader, RoleKind::shard, RoleKind::worker,
                    RoleKind::stage, RoleKind::tensor})
    for (const auto& role : plan.of_kind(kind))
      roles.push_back(role.role);
  return roles;
}

/// Those that have a process of their own.
std::vector<RoleId> process_roles_of(const Plan& plan) {
  auto roles = roles_of(plan);
  if (plan.paired)
    std::erase_if(roles, [](RoleId x) { return x.kind != RoleKind::worker; });
  return roles;
}

/// What each role's process is started with, and where.
void start_with(SupervisorOptions& supervise, const RunOptions& options,
                const LaunchOptions& launch, const std::string& coordinator) {
  supervise.coordinator = coordinator;
  if (options.allow_faults)
    supervise.arguments.emplace_back("--allow-faults");
  supervise.arguments.insert(
    supervise.arguments.end(),
    {"--flight", options.flight.empty() ? "none" : options.flight});
  if (!options.job.plugin.empty())
    supervise.arguments.insert(supervise.arguments.end(),
                               {"--plugin", options.job.plugin});
  const auto library = plugin_of_device(options.job.devices.front());
  if (!library.empty())
    supervise.arguments.insert(supervise.arguments.end(),
                               {"--devices", "pjrt:" + library});
  supervise.deaths = std::make_shared<RoleDeaths>();
  supervise.host_of = launch.host_of;
  if (supervise.host_of)
    return;
  // A machine may have no other loopback address than this one.
  if (parse_endpoints(coordinator).front().host == "::1")
    supervise.arguments.insert(supervise.arguments.end(),
                               {"--listen", "[::1]:0"});
  supervise.host_of =
    [here = std::make_shared<LocalProcesses>(LocalProcesses::Options{
       launch.processes, launch.program, launch.certificates,
       supervise.deaths})](RoleId) { return here; };
}

/// How a run ended whose coordinators have; none: one of them runs.
std::optional<RunResult>
end_of(const std::vector<std::shared_ptr<KeptCoordinator>>& kept) {
  std::optional<RunResult> end;
  for (const auto& one : kept) {
    end = one->ended();
    if (!end)
      return {};
  }
  return end;
}

} // namespace

RunResult run_in_process(const RunOptions& options, const JobData& data) {
  auto journal = open_journal(options.journal, false, make_job_id(),
                              to_json(options.job));
  ActorConfig config{Credentials{}};
  caf::actor_system system{config};
  caf::scoped_actor self{system};
  std::optional<CertificateRenewal> renewal;
  const auto guard = [&](bool leaves_host) {
    if (!leaves_host)
      return metrics_guard();
    const auto tls = std::make_shared<TlsContext>(
      make_credentials(options.certificates, coordinator_name));
    renewal.emplace(CertificateRenewal::Options{tls, {}, {}, {}});
    return metrics_guard(tls, options.metrics_token);
  };
  auto coordinator = start_with(journal, [&] {
    return start_coordinator(system, options, data, journal, options.began,
                             guard);
  });
  SupervisorOptions supervise;
  supervise.roles = roles_of(coordinator.job->plan);
  supervise.job = coordinator.job;
  supervise.data = data;
  supervise.job_id = journal.job;
  supervise.flight = options.flight;
  supervise.restart_budget = options.restarts;
  auto supervisor = spawn_role_supervisor(system, coordinator.actor,
                                          std::move(supervise));
  auto result = watch(self, coordinator.actor, options.events);
  caf::anon_send_exit(supervisor, caf::exit_reason::user_shutdown);
  caf::anon_send_exit(coordinator.actor, caf::exit_reason::user_shutdown);
  return result;
}

RunResult run_processes(const RunOptions& options,
                        const LaunchOptions& wanted) {
  auto launch = wanted;
  if (!launch.processes)
    launch.processes = std::make_shared<ChildProcesses>();
  const auto& processes = launch.processes;
  ActorConfig config{launch.credentials};
  const CertificateRenewal renewal{{config.tls(), {}, {}, launch.renewed}};
  caf::actor_system system{config};
  caf::scoped_actor self{system};
  EndsWithScope voter;
  if (!launch.voter.empty()) {
    voter.actor = caf::actor_cast<caf::strong_actor_ptr>(
      spawn_voter(system, launch.journal, {refuse_decided(config.tls()), {}}));
    publish(system, voter.actor, launch.voter);
  }
  std::vector kept{std::make_shared<KeptCoordinator>(
    processes, launch, launch.coordinator_arguments)};
  auto start = kept.front()->start(options.events, options.restarts);
  if (start.address.empty())
    return start.failure;
  if (!launch.standby_arguments.empty()) {
    kept.push_back(std::make_shared<KeptCoordinator>(processes, launch,
                                                     launch.standby_arguments));
    kept.back()->begin();
    start.address = launch.coordinators;
  }
  std::optional<RunResult> end; // where it ends while it begins
  Waiting waiting;
  waiting.over = [&] {
    end = told_to_end(options.events);
    if (!end)
      end = end_of(kept);
    return end.has_value();
  };
  const auto first = connect(system, start.address, answer_deadline_ms,
                             waiting);
  if (!first)
    return *end;
  ControlLineOptions line;
  line.first = caf::actor_cast<coordinator_actor>(first);
  line.address = start.address;
  line.role.kind = RoleKind::coordinator;
  line.revoked = refuse_members(config.tls(), launch.revoked);
  line.comes = [kept] {
    return std::ranges::any_of(kept, [](const auto& x) { return x->speaks(); });
  };
  // Where another one stands by it has taken over long before, unless it has
  // left: then none of them answers.
  line.replace = [kept] {
    for (const auto& one : kept)
      one->kill("it had not answered for a quarter of a minute");
  };
  auto coordinator = spawn_control_line(system, std::move(line));
  // Whoever may read the coordinator's certificates can be whoever it likes: an
  // operator, or a role that joins.
  if (options.events.note)
    options.events.note("coordinator: " + start.address + ", certificates "
                        + launch.certificates(coordinator_name));
  // The plan needs no data: the roles are the same for any number of samples.
  Job job{options.job, options.job.global_batch};
  SupervisorOptions supervise;
  supervise.roles = launch.roles.empty() ? process_roles_of(job.plan)
                                         : launch.roles;
  supervise.paired = job.plan.paired;
  supervise.restart_budget = options.restarts;
  const auto laid_out = std::make_shared<Job>(job);
  supervise.memory_need = [laid_out](RoleId role) {
    for (const auto& need : memory_needs(*laid_out))
      if (need.role == role)
        return in_words(need);
    return std::string{};
  };
  if (options.replans) {
    supervise.replan = [laid_out, &launch](const std::string& layout) {
      auto anew = laid_out->options;
      take_layout(anew, layout);
      *laid_out = Job{std::move(anew), laid_out->options.global_batch};
      if (launch.place)
        launch.place(laid_out->plan);
      return process_roles_of(laid_out->plan);
    };
    supervise.devices_left = launch.devices_left;
    if (!supervise.devices_left) // each is one of this machine's
      supervise.devices_left =
        [left = static_cast<uint32_t>(supervise.roles.size())](RoleId) mutable {
          return --left;
        };
  }
  supervise.coordinators = kept;
  start_with(supervise, options, launch, start.address);
  supervise.on_line = [&launch](RoleId role, const std::string& line) {
    if (launch.on_line)
      launch.on_line(to_string(role), line);
  };
  auto supervisor = spawn_role_supervisor(system, coordinator,
                                          std::move(supervise));
  auto result = watch(self, coordinator, options.events);
  // It may have been told to end, and have ended, before it was watched.
  if (end = end_of(kept);
      end && result.summary.empty() && is_stop_status(end->status))
    result = *end;
  self->send(coordinator, Detach{});
  caf::anon_send_exit(supervisor, caf::exit_reason::user_shutdown);
  processes->wait_all(end_deadline_ms);
  for (const auto& one : kept)
    one->watch({});
  caf::anon_send_exit(coordinator, caf::exit_reason::user_shutdown);
  return result;
}

} // namespace troupe
