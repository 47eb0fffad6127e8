#include "apps/chaos/host_job.hpp"

#include "actors/certificates/credentials.hpp"
#include "actors/process/stop_status.hpp"
#include "actors/shard/kept_memory.hpp"
#include "kernels/base/error.hpp"

#include <algorithm>
#include <csignal>
#include <utility>

namespace troupe {
namespace {

constexpr const char* coordinator_port = ":7000";
const int status_when_told = stop_status("terminated");

bool is_coordinator(RoleId role) {
  return role.kind == RoleKind::coordinator;
}

} // namespace

size_t host_of(const Plan& plan, RoleId role, size_t hosts) {
  if (is_coordinator(role))
    return 0;
  if (role.kind != RoleKind::shard || plan.owners == 0)
    return role.index % hosts;
  return (role.index % plan.owners + role.index / plan.owners) % hosts;
}

HostJob::HostJob(HostNetwork& network, const Plan& plan,
                 std::vector<std::string> job, std::string certificates)
  : network_(network), coordinator_(network.address(0) + coordinator_port) {
  make_credentials(certificates, coordinator_name);
  const auto add = [&](RoleId role, const std::vector<std::string>& flags) {
    auto command = network_.on(host_of(plan, role, network_.size()));
    command.insert(command.end(), {image_.path(), "role", to_string(role),
                                   "--certificates", certificates});
    command.insert(command.end(), flags.begin(), flags.end());
    roles_.push_back(
      {role, host_of(plan, role, network_.size()), std::move(command)});
  };
  job.insert(job.end(), {"--listen", coordinator_});
  add({RoleKind::coordinator, 0}, job);
  for (auto kind : {RoleKind::shard, RoleKind::worker})
    for (const auto& role : plan.of_kind(kind))
      add(role.role, {"--coordinator", coordinator_});
  for (auto& role : roles_)
    start(role);
}

void HostJob::start(Role& role) {
  {
    const std::lock_guard guard{lock_};
    role.killed = false;
    role.runs = true;
  }
  // Not under the lock: the thread that starts it may be telling of an end.
  const int pid = processes_.start(
    role.command, -1, {}, [this, &role](const ChildProcesses::Exit& exit) {
      const std::lock_guard guard{lock_};
      role.runs = false;
      if (!role.killed && is_coordinator(role.role))
        exit_ = exit;
      const bool as_told = terminated_ && is_coordinator(role.role)
                           && exit.status == status_when_told;
      if (!role.killed && !as_told && (exit.status != 0 || exit.signal != 0))
        ended_.push_back(to_string(role.role) + " ended with " + exit.describe()
                         + (exit.last_lines.empty()
                              ? std::string{}
                              : ": " + exit.last_lines.back()));
      changed_.notify_all();
    });
  const std::lock_guard guard{lock_};
  role.pid = pid;
}

void HostJob::kill(size_t host) {
  std::unique_lock guard{lock_};
  for (auto& role : roles_)
    if (role.host == host && role.runs) {
      role.killed = true;
      processes_.signal(role.pid, SIGKILL);
    }
  changed_.wait(guard, [&] {
    return std::ranges::none_of(roles_, [&](const Role& role) {
      return role.host == host && role.runs;
    });
  });
  for (const auto& role : roles_)
    if (role.host == host && role.role.kind == RoleKind::shard)
      KeptMemory{coordinator_, role.role}.remove();
}

void HostJob::start(size_t host) {
  for (auto& role : roles_)
    if (role.host == host)
      start(role);
}

void HostJob::terminate() {
  const std::lock_guard guard{lock_};
  if (!roles_.front().runs)
    return;
  terminated_ = true;
  processes_.signal(roles_.front().pid, SIGTERM);
}

bool HostJob::over() {
  const std::lock_guard guard{lock_};
  return exit_.has_value();
}

std::vector<std::string> HostJob::ended() {
  const std::lock_guard guard{lock_};
  return ended_;
}

void HostJob::finish(std::chrono::milliseconds deadline) {
  std::unique_lock guard{lock_};
  if (!changed_.wait_for(guard, deadline, [&] { return exit_.has_value(); }))
    throw InputError("the job did not end within "
                     + std::to_string(deadline.count() / 1000) + " s");
  if (exit_->signal != 0
      || (exit_->status != 0
          && !(terminated_ && exit_->status == status_when_told)))
    throw InputError("the job ended: " + ended_.back());
  constexpr std::chrono::seconds others{20};
  changed_.wait_for(guard, others,
                    [&] { return std::ranges::none_of(roles_, &Role::runs); });
  for (const auto& role : roles_)
    if (role.runs)
      ended_.push_back("the run is over, " + to_string(role.role) + " is not");
}

} // namespace troupe
