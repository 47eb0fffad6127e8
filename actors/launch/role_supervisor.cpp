#include "actors/launch/role_supervisor.hpp"

#include "actors/launch/kept_coordinator.hpp"
#include "actors/launch/role_host.hpp"
#include "actors/process/steady_ms.hpp"
#include "actors/process/stop_status.hpp"
#include "actors/reader/row_fetcher.hpp"
#include "actors/replica/local_groups.hpp"
#include "actors/wire/error_line.hpp"
#include "kernels/base/seconds_since.hpp"
#include "kernels/base/steady_clock.hpp"
#include "strategies/restart_budget.hpp"

#include <map>
#include <optional>
#include <set>
#include <utility>

namespace troupe {
namespace {

/// How long a role that leaves may take to end.
constexpr std::chrono::seconds retire_deadline{5};
constexpr std::chrono::seconds told_deadline{30};
constexpr uint64_t told_again_ms = 100;
/// What members have left is written down, and operators are measured.
constexpr std::chrono::minutes replan_deadline{10};
/// Until what other hosts have kept is here; slow networks have large models.
constexpr uint64_t bring_deadline_ms = 10 * 60'000;
/// A role that was told to end, or ends well, most often does so with its run:
/// how long that may take to be heard of before the role is started again.
constexpr std::chrono::milliseconds end_patience{500};
/// Between the silence of one role of a process and that of the other.
constexpr std::chrono::milliseconds pair_patience{1'000};

class SupervisorState {
public:
  static inline const char* name = "role supervisor";

  SupervisorState(supervisor_actor::pointer self, coordinator_actor coordinator,
                  SupervisorOptions options)
    : self_(self),
      coordinator_(std::move(coordinator)),
      options_(std::move(options)),
      budget_(options_.restart_budget),
      groups_(options_.job ? std::make_shared<LocalGroups>(options_.job)
                           : nullptr) {}

  supervisor_actor::behavior_type make_behavior() {
    self_->set_down_handler([this](const caf::down_msg& x) { on(x); });
    self_->set_error_handler([](caf::scheduled_actor*, caf::error&) {});
    self_->set_exit_handler(
      [this](const caf::exit_msg& x) { self_->quit(x.reason); });
    self_->monitor(coordinator_);
    attach();
    for (const auto& kept : options_.coordinators)
      watch_coordinator(kept);
    for (auto role : options_.roles)
      start_or_give_up(role);
    return {
      [this](const Progress& x) { budget_.committed(x.step); },
      [](const DataEpochEnd&) {},
      [](const Spreads&) {},
      [](const Note&) {},
      [this](const Finished&) { over_ = true; },
      [this](const ReplaceRole& x) { on(x); },
      [this](const StartRole& x) {
        added_.insert(x.role);
        attach();
        start_or_give_up(x.role);
      },
      [this](const RetireRole& x) { on(x); },
      // The control line says it again to each coordinator that follows.
      [this](const StopRequest& x) { self_->send(coordinator_, x); },
      [](const Completion& x) { x.then(); },
      [](caf::tick_atom) {},
    };
  }

private:
  struct Running {
    std::shared_ptr<HostProcesses> host; ///< null: an actor
    uint64_t number = 0;                 ///< of its process there; 0: none
    RoleProcess ended;                   ///< the process before
    SteadyClock::time_point started{};   ///< its process, or actor
    caf::strong_actor_ptr actor;
  };

  /// The control line says it again to each coordinator that follows: one that
  /// has not asked for an added role must not take it for one started by hand.
  void attach() {
    self_->send(coordinator_, Attach{true, {added_.begin(), added_.end()}});
  }

  void start(RoleId role) {
    if (options_.host_of)
      start_process(role);
    else
      start_actor(role);
  }

  void start_process(RoleId role) {
    auto& running = running_[role];
    running.host = options_.host_of(role);
    running.started = SteadyClock::now();
    auto handle = caf::actor_cast<caf::actor>(self_->ctrl());
    running.number = running.host->start(
      {role, options_.paired, options_.coordinator, options_.arguments,
       [on_line = options_.on_line, role](const std::string& line) {
         if (on_line)
           on_line(role, line);
       },
       [this, handle, role, layout = layout_](const HostProcesses::End& end) {
         caf::anon_send(handle, Completion{[this, role, end, layout] {
                          if (layout == layout_)
                            ended(role, end);
                        }});
       }});
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
          record_in(options_.flight, context);
          if (context.job->is_read_for(role.kind))
            context.data.train = samples_of_readers(self_->system(), context,
                                                    nullptr);
          auto actor = spawn_role(self_->system(), context, -1);
          running_[role].actor = actor;
          running_[role].started = SteadyClock::now();
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
        RoleDeath death{line_of(down.reason), {}};
        if (is_bad_input(down.reason)) {
          death.life.ms =
            static_cast<uint64_t>(1e3 * seconds_since(running.started));
          death.life.input = true;
        }
        died(RoleId{role}, death);
        return;
      }
  }

  void ended(RoleId role, const HostProcesses::End& end) {
    auto& running = running_[role];
    running.number = 0;
    running.ended = end.process;
    if (gone_) {
      tell_what_remains();
      return;
    }
    auto death = end.death;
    if (death.life.memory && options_.memory_need)
      death.how += ", it " + options_.memory_need(role);
    if (end.well)
      self_->delayed_send(self_, end_patience,
                          Completion{[this, role, death, layout = layout_] {
                            if (layout == layout_)
                              died(role, death);
                          }});
    else
      died(role, death);
  }

  // --- a role that is started no more ----------------------------------------

  /// Asks whether the job goes on without it; until a coordinator has heard so.
  void gone(RoleId role, const std::string& why) {
    if (!options_.replan) {
      give_up(why);
      return;
    }
    if (asked_for_.value_or(role) != role) // that one ends all
      return;
    asked_for_ = role;
    self_->request(coordinator_, told_deadline, RoleGone{role, why})
      .then([this, why](const Note&) { end_members(why); },
            [this, role, why](const caf::error& failure) {
              if (failure == caf::sec::invalid_argument
                  || failure == caf::sec::request_timeout)
                give_up(why + "; its layers cannot be dealt anew: "
                        + line_of(failure));
              else
                after(told_again_ms, [this, role, why] { gone(role, why); });
            });
  }

  void give_up(const std::string& why) {
    self_->send(coordinator_, GiveUp{why});
    over_ = true;
  }

  void end_members(const std::string& why) {
    gone_ = why;
    for (auto& [role, running] : running_)
      if (running.number != 0)
        running.host->kill(running.number);
    tell_what_remains();
    after(told_deadline.count() * 1'000, [this, layout = layout_] {
      const bool waits = std::ranges::any_of(running_, [](const auto& one) {
        return one.second.number != 0;
      });
      if (gone_ && !over_ && layout == layout_ && waits)
        give_up(*gone_
                + "; its layers cannot be dealt anew: others of the job "
                  "do not end");
    });
  }

  /// Once all have ended, and what is kept of them on other hosts has come.
  void tell_what_remains() {
    if (std::ranges::any_of(running_, [](const auto& one) {
          return one.second.number != 0;
        }))
      return;
    remains_ = {};
    unread_ = running_.size();
    auto handle = caf::actor_cast<caf::actor>(self_->ctrl());
    const auto tell = [this, handle, layout = layout_](const std::string& at) {
      caf::anon_send(handle, Completion{[this, layout, at] {
                       if (layout == layout_) // else it comes too late
                         remains_at(at);
                     }});
    };
    for (const auto& [role, running] : running_)
      if (running.host)
        running.host->tell_memory(role, tell);
      else
        tell({});
    after(bring_deadline_ms, [this, layout = layout_] {
      if (layout == layout_ && unread_ > 0 && !over_) {
        unread_ = 0; // others may have what has not come
        ask_anew();
      }
    });
  }

  void remains_at(const std::string& at) {
    if (unread_ == 0 || over_)
      return; // too late
    if (!at.empty())
      remains_.states.push_back(at);
    if (--unread_ == 0)
      ask_anew();
  }

  void ask_anew() {
    remains_.devices = options_.devices_left(*asked_for_);
    self_->request(coordinator_, replan_deadline, remains_)
      .then([this](const Replanned& x) { begin_anew(x.layout); },
            [this](const caf::error& failure) {
              if (failure != caf::sec::request_receiver_down) // it died: told
                give_up(*gone_ + "; its layers cannot be dealt anew: "
                        + line_of(failure));
            });
  }

  /// The coordinator goes on from its journal, with the roles of that layout.
  void begin_anew(const std::string& layout) {
    try {
      options_.roles = options_.replan(layout);
    } catch (const std::exception& failure) {
      give_up(*gone_ + "; " + failure.what());
      return;
    }
    for (const auto& [role, running] : running_)
      if (running.host)
        running.host->forget(role);
    running_.clear();
    retired_.clear();
    budget_ = RestartBudget{options_.restart_budget};
    ++layout_;
    follows_ = true;
    options_.coordinators.front()->kill("layers are dealt anew");
  }

  void coordinator_follows(KeptCoordinator& kept) {
    follows_ = false;
    auto handle = caf::actor_cast<caf::actor>(self_->ctrl());
    try {
      kept.restart([this, handle] {
        caf::anon_send(handle, Completion{[this] {
                         if (over_ || !std::exchange(gone_, std::nullopt))
                           return;
                         asked_for_.reset();
                         for (auto role : options_.roles)
                           start_or_give_up(role);
                       }});
      });
    } catch (const std::exception& failure) {
      end_run(failure.what());
    }
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
    if (follows_) {
      coordinator_follows(kept);
      return;
    }
    if (gone_) {
      end_run(*gone_
              + "; the coordinator died while its layers were dealt "
                "anew: "
              + line_of(exit));
      return;
    }
    if (exit.signal == 0 && exit.status != deposed_status) {
      // Where all are told to end, the one that leads ends the run.
      if (!is_stop_status(exit.status) || --coordinators_ == 0)
        end_run(line_of(exit));
      return;
    }
    const RoleId role{RoleKind::coordinator, 0};
    auto death = options_.deaths->explain(exit);
    if (const auto why = kept.why_killed(); !why.empty())
      death = {why, {}};
    const auto verdict = budget_.died(role, death.how, death.life);
    if (!verdict.restart) {
      end_run(verdict.reason);
      return;
    }
    after(verdict.delay_ms, [this, &kept, role, verdict] {
      try {
        kept.restart();
        tell_of_death({role, verdict.reason, {}, 0, verdict.left});
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

  void died(RoleId role, const RoleDeath& death) {
    const auto& ended = running_[role].ended;
    RoleDied known{role, {}, ended.host, ended.process};
    if (over_ || gone_)
      return;
    if (retired_.contains(role)) {
      forget(role);
      return;
    }
    auto life = death.life;
    life.away = life.away && !options_.replan; // that goes on without its host
    auto verdict = budget_.died(role, death.how, life, steady_ms());
    if (!verdict.restart) {
      if (death.life.input) // any layout would read the same
        give_up(verdict.reason);
      else
        gone(role, verdict.reason);
      return;
    }
    known.how = verdict.reason;
    known.left = verdict.left;
    tell_of_death(known);
    if (options_.paired) {
      known.role.kind = RoleKind::shard;
      known.how = to_string(known.role) + " died with " + to_string(role);
      tell_of_death(known);
    }
    after(verdict.delay_ms, [this, role, layout = layout_] {
      if (!retired_.contains(role) && !gone_ && layout == layout_)
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
    added_.erase(retire.role);
    Completion late{[this, role = retire.role] {
      if (!over_ && running_.contains(role))
        on(ReplaceRole{role, {}});
    }};
    self_->delayed_send(self_, retire_deadline, std::move(late));
  }

  void forget(RoleId role) {
    if (const auto& host = running_[role].host)
      host->forget(role);
    running_.erase(role);
  }

  void on(const ReplaceRole& replace) {
    if (gone_)
      return;
    auto role = replace.role;
    if (options_.paired)
      role.kind = RoleKind::worker;
    auto& running = running_[role];
    // The other role of a process that was replaced a moment ago.
    if (options_.paired && SteadyClock::now() - running.started < pair_patience)
      return;
    if (running.number != 0)
      running.host->kill(running.number);
    if (running.actor)
      self_->send_exit(caf::actor_cast<caf::actor>(running.actor),
                       caf::exit_reason::kill);
  }

  supervisor_actor::pointer self_;
  coordinator_actor coordinator_;
  SupervisorOptions options_;
  RestartBudget budget_;
  std::shared_ptr<LocalGroups> groups_; ///< where roles are actors
  std::map<RoleId, Running> running_;
  std::set<RoleId> added_;   ///< as coordinators asked for
  std::set<RoleId> retired_; ///< they have left, or are leaving
  size_t coordinators_ = options_.coordinators.size(); ///< not told to end
  std::optional<RoleId> asked_for_;                    ///< who is gone
  /// Why all members are ended; none: they are not.
  std::optional<std::string> gone_;
  Remains remains_;      ///< as far as it is known
  size_t unread_ = 0;    ///< whose memory is still brought
  uint32_t layout_ = 0;  ///< counts how often layers were dealt
  bool follows_ = false; ///< a coordinator for that, once this one has ended
  bool over_ = false;
};

} // namespace

supervisor_actor spawn_role_supervisor(caf::actor_system& system,
                                       const coordinator_actor& coordinator,
                                       SupervisorOptions options) {
  return system.spawn<supervisor_actor::stateful_impl<SupervisorState>>(
    coordinator, std::move(options));
}

} // namespace troupe
