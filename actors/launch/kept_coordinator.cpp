#include "actors/launch/kept_coordinator.hpp"

#include "actors/process/stop_status.hpp"
#include "kernels/base/error.hpp"
#include "kernels/base/steady_clock.hpp"
#include "strategies/restart_budget.hpp"

#include <chrono>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <future>
#include <optional>
#include <utility>

namespace troupe {
namespace {

constexpr std::chrono::milliseconds ask_period{100};
constexpr std::chrono::seconds start_deadline{60}; ///< since its last line

} // namespace

/// Where it listens, or how it ended before; neither: it was told to end.
struct KeptCoordinator::First {
  std::string address;
  std::optional<ChildProcesses::Exit> exit;
};

struct KeptCoordinator::Shared {
  std::mutex mutex;
  std::function<void(const ChildProcesses::Exit&)> died;
  int pid = 0;            ///< of its newest process
  std::string why_killed; ///< that one; empty: by others, or not
  RoleDeaths deaths;
  uint64_t lines = 0;                      ///< that it has printed
  SteadyClock::time_point heard{};         ///< the newest, or when it began
  std::optional<ChildProcesses::Exit> end; ///< none: its process runs
  std::optional<RunResult> result;         ///< that the run has then
  bool seen = false;                       ///< who watches knows of the end

  RunResult result_of(const ChildProcesses::Exit& exit) {
    return result_of(exit, deaths.explain(exit));
  }
  static RunResult result_of(const ChildProcesses::Exit& exit,
                             const RoleDeath& death) {
    return {exit.status > 0 ? exit.status : 1, line_of(exit, death), ""};
  }

  /// Tells who watches, now or later; `mutex` is held.
  void ended(const ChildProcesses::Exit& exit) {
    end = exit;
    result = result_of(exit);
    seen = false;
    tell();
  }
  void tell() {
    if (end && died && !std::exchange(seen, true))
      died(*end);
  }
};

std::string line_of(const ChildProcesses::Exit& exit) {
  for (const auto& line : exit.last_lines)
    if (line.starts_with("troupe: "))
      return line.substr(8);
  return "the coordinator ended with " + exit.describe();
}

std::string line_of(const ChildProcesses::Exit& exit, const RoleDeath& death) {
  return death.life.memory && exit.signal != 0
           ? "the coordinator was " + death.how
           : line_of(exit);
}

std::optional<RunResult> told_to_end(const RunEvents& events) {
  const auto why = events.stop ? events.stop() : "";
  if (why.empty())
    return {};
  return RunResult{stop_status(why),
                   why + " before the first step: nothing was saved", ""};
}

KeptCoordinator::KeptCoordinator(std::shared_ptr<ChildProcesses> processes,
                                 const LaunchOptions& launch,
                                 std::vector<std::string> arguments)
  : processes_(std::move(processes)),
    launch_(launch),
    arguments_(std::move(arguments)),
    shared_(std::make_shared<Shared>()) {}

void KeptCoordinator::run(
  std::function<void(const std::string&)> on_address,
  std::function<void(const ChildProcesses::Exit&)> on_exit) {
  std::vector<std::string> arguments{launch_.program};
  arguments.insert(arguments.end(), arguments_.begin(), arguments_.end());
  const int pid = processes_->start(
    std::move(arguments), -1,
    [on_address = std::move(on_address), on_line = launch_.on_line,
     shared = shared_](const std::string& line) {
      {
        const std::lock_guard guard{shared->mutex};
        ++shared->lines;
        shared->heard = SteadyClock::now();
      }
      if (line.starts_with(listening_prefix))
        on_address(line.substr(strlen(listening_prefix)));
      else if (on_line)
        on_line("coordinator", line);
    },
    std::move(on_exit));
  const std::lock_guard guard{shared_->mutex};
  shared_->pid = pid;
  shared_->heard = SteadyClock::now();
}

/// The same command begins its journal, or goes on with what it has of one.
/// What ended by itself would do so again.
KeptCoordinator::Start KeptCoordinator::start(const RunEvents& events,
                                              uint32_t restarts) {
  RestartBudget budget{restarts};
  for (;;) {
    auto first = start_once(events);
    if (!first.address.empty())
      return {first.address, {}};
    if (auto told = told_to_end(events))
      return {"", *std::move(told)};
    const auto death = shared_->deaths.explain(*first.exit);
    if (first.exit->signal == 0 || death.life.by_itself || restarts == 0)
      return {"", Shared::result_of(*first.exit, death)};
    const auto verdict = budget.died({RoleKind::coordinator, 0}, death.how,
                                     death.life);
    if (!verdict.restart)
      return {"", {1, verdict.reason, ""}};
    if (events.note)
      events.note(verdict.reason);
  }
}

KeptCoordinator::First KeptCoordinator::start_once(const RunEvents& events) {
  const auto said = std::make_shared<std::promise<First>>();
  const auto listens = std::make_shared<bool>(false);
  auto future = said->get_future();
  run(
    [said, listens, shared = shared_](const std::string& address) {
      const std::lock_guard guard{shared->mutex};
      if (!std::exchange(*listens, true))
        said->set_value({address, {}});
    },
    [said, listens, shared = shared_](const ChildProcesses::Exit& exit) {
      const std::lock_guard guard{shared->mutex};
      if (!*listens)
        said->set_value({"", exit});
      else
        shared->ended(exit);
    });
  uint64_t lines = 0;
  auto periods = start_deadline / ask_period; // those of a pause do not count
  while (future.wait_for(ask_period) != std::future_status::ready) {
    if (told_to_end(events))
      return {};
    const std::lock_guard guard{shared_->mutex};
    if (shared_->lines > std::exchange(lines, shared_->lines))
      periods = start_deadline / ask_period;
    else if (--periods == 0)
      throw InputError("the coordinator has said nothing for "
                       + std::to_string(start_deadline.count())
                       + " s, and does not listen yet");
  }
  return future.get();
}

void KeptCoordinator::watch(
  std::function<void(const ChildProcesses::Exit&)> died) {
  const std::lock_guard guard{shared_->mutex};
  shared_->died = std::move(died);
  shared_->tell();
}

std::optional<RunResult> KeptCoordinator::ended() const {
  const std::lock_guard guard{shared_->mutex};
  return shared_->result;
}

bool KeptCoordinator::speaks() const {
  const std::lock_guard guard{shared_->mutex};
  // One that has ended is started again soon, or the supervisor ends the run.
  return SteadyClock::now() - shared_->heard < start_deadline;
}

void KeptCoordinator::kill(const std::string& why) const {
  int pid = 0;
  {
    const std::lock_guard guard{shared_->mutex};
    pid = shared_->pid;
    shared_->why_killed = why;
  }
  processes_->signal(pid, SIGKILL);
}

std::string KeptCoordinator::why_killed() const {
  const std::lock_guard guard{shared_->mutex};
  return shared_->why_killed;
}

void KeptCoordinator::restart(std::function<void()> listens) {
  if (launch_.journal.empty() || !std::filesystem::exists(launch_.journal))
    throw InputError("the coordinator died, and there is no journal "
                     + launch_.journal + " to go on from");
  begin(std::move(listens));
}

void KeptCoordinator::begin(std::function<void()> listens) {
  {
    const std::lock_guard guard{shared_->mutex};
    shared_->end.reset();
    shared_->result.reset();
    shared_->why_killed.clear();
  }
  run(
    [listens = std::move(listens)](const std::string&) {
      if (listens)
        listens();
    },
    [shared = shared_](const ChildProcesses::Exit& exit) {
      const std::lock_guard guard{shared->mutex};
      shared->ended(exit);
    });
}

} // namespace troupe
