#include "actors/launch/node_supervisor.hpp"

#include "actors/coordinator/stop_status.hpp"
#include "actors/launch/kept_coordinator.hpp"
#include "actors/launch/role_host.hpp"
#include "actors/process/own_process.hpp"
#include "actors/process/role_death.hpp"
#include "actors/replica/local_groups.hpp"
#include "actors/wire/error_line.hpp"
#include "strategies/restart_budget.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <csignal>
#include <map>
#include <set>
#include <utility>

namespace troupe {
namespace {

/// How long a role that leaves may take to end.
constexpr std::chrono::seconds retire_deadline{5};
constexpr std::chrono::seconds told_deadline{30};
constexpr uint64_t told_again_ms = 100;
/// A role that was told to end, or ends well, most often does so with its run:
/// how long that may take to be heard of before the role is started again.
constexpr std::chrono::milliseconds end_patience{500};

class SupervisorState {
public:
  static inline const char* name = "node supervisor";

  SupervisorState(supervisor_actor::pointer self, coordinator_actor coordinator,
                  SupervisorOptions options)
    : self_(self),
      coordinator_(std::move(coordinator)),
      options_(std::move(options)),
      budget_(options_.restart_budget),
      groups_(options_.job ? std::make_shared<LocalGroups>(options_.job)
                           : nullptr) {}

  ~SupervisorState() {
    for (const auto& [role, running] : running_)
      if (running.memory >= 0)
        close(running.memory);
  }

  supervisor_actor::behavior_type make_behavior() {
    self_->set_down_handler([this](const caf::down_msg& x) { on(x); });
    self_->set_error_handler([](caf::scheduled_actor*, caf::error&) {});
    self_->set_exit_handler(
      [this](const caf::exit_msg& x) { self_->quit(x.reason); });
    self_->monitor(coordinator_);
    self_->send(coordinator_, Attach{true});
    for (const auto& kept : options_.coordinators)
      watch_coordinator(kept);
    for (auto role : options_.roles)
      start_or_give_up(role);
    return {
      [this](const Progress& x) { budget_.committed(x.step); },
      [](const EpochEnd&) {},
      [](const Note&) {},
      [this](const Finished&) { over_ = true; },
      [this](const ReplaceRole& x) { on(x); },
      [this](const StartRole& x) { start_or_give_up(x.role); },
      [this](const RetireRole& x) { on(x); },
      [](const StopRequest&) {},
      [](const Completion& x) { x.then(); },
      [](caf::tick_atom) {},
    };
  }

private:
  struct Running {
    int pid = 0;
    int ended = 0;   ///< the process before
    int memory = -1; ///< of a shard: outlives its processes
    caf::strong_actor_ptr actor;
  };

  void start(RoleId role) {
    if (options_.processes)
      start_process(role);
    else
      start_actor(role);
  }

  void start_process(RoleId role) {
    auto& running = running_[role];
    std::vector<std::string> arguments{options_.program, "role",
                                       to_string(role)};
    arguments.insert(arguments.end(), options_.arguments.begin(),
                     options_.arguments.end());
    if (options_.certificates)
      arguments.insert(arguments.end(), {"--certificates",
                                         options_.certificates(name_of(role))});
    if (keeps_slices(role.kind)) {
      if (running.memory < 0)
        running.memory = memfd_create(to_string(role).c_str(),
                                      MFD_CLOEXEC | MFD_ALLOW_SEALING);
      if (running.memory >= 0) {
        arguments.push_back("--state-fd");
        arguments.push_back(std::to_string(running.memory));
      }
    }
    auto handle = caf::actor_cast<caf::actor>(self_->ctrl());
    running.pid = options_.processes->start(
      std::move(arguments), running.memory,
      [on_line = options_.on_line, role](const std::string& line) {
        if (on_line)
          on_line(role, line);
      },
      [this, handle, role](const ChildProcesses::Exit& exit) {
        caf::anon_send(handle, Completion{[this, role, exit] {
                         const auto death = explain(role, exit);
                         if (exit.status == 0 || is_stop_status(exit.status))
                           ended_well(role, death);
                         else
                           died(role, death);
                       }});
      });
  }

  void start_actor(RoleId role) {
    self_->request(coordinator_, std::chrono::seconds{10}, Hello{role})
      .then([this, role](const JobInfo& info) {
        if (retired_.contains(role))
          return;
        RoleContext context{options_.job,
                            options_.data,
                            options_.job_id,
                            role,
                            info.incarnation,
                            coordinator_,
                            std::make_shared<MetricRegistry>(),
                            false,
                            groups_};
        try {
          if (!options_.flight.empty())
            context.flight = std::make_shared<FlightRecorder>(options_.flight,
                                                              to_string(role));
          auto actor = spawn_role(self_->system(), context, -1);
          running_[role].actor = actor;
          self_->monitor(caf::actor_cast<caf::actor_addr>(actor));
          send_join(context, actor, {}, {});
        } catch (const std::exception& failure) {
          self_->send(coordinator_, GiveUp{failure.what()});
        }
      });
  }

  void on(const caf::down_msg& down) {
    if (down.source == coordinator_.address()) {
      self_->quit(down.reason);
      return;
    }
    for (auto& [role, running] : running_)
      if (running.actor
          && caf::actor_cast<caf::actor_addr>(running.actor) == down.source) {
        running.actor = nullptr;
        died(RoleId{role}, {line_of(down.reason), {}});
        return;
      }
  }

  RoleDeath explain(RoleId role, const ChildProcesses::Exit& exit) {
    auto death = deaths_.explain(exit);
    if (death.life.memory && options_.memory_need)
      death.how += ", it " + options_.memory_need(role);
    return death;
  }

  void watch_coordinator(const std::shared_ptr<KeptCoordinator>& kept) {
    auto handle = caf::actor_cast<caf::actor>(self_->ctrl());
    kept->watch(
      [this, handle, kept = kept.get()](const ChildProcesses::Exit& exit) {
        caf::anon_send(handle, Completion{[this, kept, exit] {
                         coordinator_died(*kept, exit);
                       }});
      });
  }

  /// One that ended by itself would do so again; but not one that was deposed.
  void coordinator_died(KeptCoordinator& kept,
                        const ChildProcesses::Exit& exit) {
    if (over_)
      return;
    if (exit.signal == 0 && exit.status != deposed_status) {
      // Where all are told to end, the one that leads ends the run.
      if (!is_stop_status(exit.status) || --coordinators_ == 0)
        end_run(line_of(exit));
      return;
    }
    const RoleId role{RoleKind::coordinator, 0};
    const auto death = deaths_.explain(exit);
    const auto verdict = budget_.died(role, death.how, death.life);
    if (!verdict.restart) {
      end_run(verdict.reason);
      return;
    }
    after(verdict.delay_ms, [this, &kept, role, reason = verdict.reason] {
      try {
        kept.restart();
        tell_of_death({role, reason});
      } catch (const std::exception& failure) {
        end_run(failure.what());
      }
    });
  }

  /// Says it until a coordinator has heard it: what is said to one that has
  /// just died, maybe of its own death, nobody hears.
  void tell_of_death(const RoleDied& death) {
    self_->request(coordinator_, told_deadline, death)
      .then([] {},
            [this, death](const caf::error& why) {
              if (why != caf::sec::request_timeout)
                after(told_again_ms, [this, death] { tell_of_death(death); });
            });
  }

  /// Calls then() that much later, unless the run is over by then.
  template <class Then>
  void after(uint64_t ms, Then then) {
    if (ms == 0) {
      then();
      return;
    }
    self_->delayed_send(self_, std::chrono::milliseconds{ms},
                        Completion{[this, then] {
                          if (!over_)
                            then();
                        }});
  }

  /// There is nobody else to say it: who watches the run hears it from here.
  void end_run(const std::string& why) {
    over_ = true;
    self_->send_exit(caf::actor_cast<caf::actor>(
                       caf::actor_cast<caf::strong_actor_ptr>(coordinator_)),
                     caf::make_error(caf::sec::runtime_error, why));
  }

  void ended_well(RoleId role, const RoleDeath& death) {
    auto& running = running_[role];
    running.ended = std::exchange(running.pid, 0);
    self_->delayed_send(self_, end_patience,
                        Completion{[this, role, death] { died(role, death); }});
  }

  void died(RoleId role, const RoleDeath& death) {
    auto& running = running_[role];
    if (running.pid != 0)
      running.ended = std::exchange(running.pid, 0);
    RoleDied known{role, {}, {}, 0};
    if (options_.processes) {
      known.host = own_process().host;
      known.process = static_cast<uint32_t>(running.ended);
    }
    if (over_)
      return;
    if (retired_.contains(role)) {
      forget(role);
      return;
    }
    auto verdict = budget_.died(role, death.how, death.life);
    if (!verdict.restart) {
      self_->send(coordinator_, GiveUp{verdict.reason});
      over_ = true;
      return;
    }
    known.how = verdict.reason;
    tell_of_death(known);
    after(verdict.delay_ms, [this, role] {
      if (!retired_.contains(role))
        start_or_give_up(role);
    });
  }

  void start_or_give_up(RoleId role) {
    try {
      start(role);
    } catch (const std::exception& failure) {
      self_->send(coordinator_, GiveUp{failure.what()});
    }
  }

  /// It ends by itself; if not, it is killed.
  void on(const RetireRole& retire) {
    retired_.insert(retire.role);
    Completion late{[this, role = retire.role] {
      if (!over_ && running_.contains(role))
        on(ReplaceRole{role, {}});
    }};
    self_->delayed_send(self_, retire_deadline, std::move(late));
  }

  void forget(RoleId role) {
    if (running_[role].memory >= 0)
      close(running_[role].memory);
    running_.erase(role);
  }

  void on(const ReplaceRole& replace) {
    auto& running = running_[replace.role];
    if (running.pid > 0)
      options_.processes->signal(running.pid, SIGKILL);
    if (running.actor)
      self_->send_exit(caf::actor_cast<caf::actor>(running.actor),
                       caf::exit_reason::kill);
  }

  supervisor_actor::pointer self_;
  coordinator_actor coordinator_;
  SupervisorOptions options_;
  RestartBudget budget_;
  RoleDeaths deaths_;
  std::shared_ptr<LocalGroups> groups_; ///< where roles are actors
  std::map<RoleId, Running> running_;
  std::set<RoleId> retired_; ///< they have left, or are leaving
  size_t coordinators_ = options_.coordinators.size(); ///< not told to end
  bool over_ = false;
};

} // namespace

supervisor_actor spawn_node_supervisor(caf::actor_system& system,
                                       const coordinator_actor& coordinator,
                                       SupervisorOptions options) {
  return system.spawn<supervisor_actor::stateful_impl<SupervisorState>>(
    coordinator, std::move(options));
}

} // namespace troupe
