#include "actors/launch/kept_coordinator.hpp"

#include "actors/process/stop_status.hpp"
#include "kernels/base/error.hpp"

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

struct KeptCoordinator::Shared {
  std::mutex mutex;
  std::function<void(const ChildProcesses::Exit&)> died;
  int pid = 0;            ///< of its newest process
  std::string why_killed; ///< that one; empty: by others, or not
  RoleDeaths deaths;
  uint64_t lines = 0;                      ///< that it has printed
  std::optional<ChildProcesses::Exit> end; ///< none: its process runs
  std::optional<RunResult> result;         ///< that the run has then
  bool seen = false;                       ///< who watches knows of the end
  bool listens = false;
  std::promise<Start> first;

  RunResult result_of(const ChildProcesses::Exit& exit) {
    return {exit.status > 0 ? exit.status : 1,
            line_of(exit, deaths.explain(exit)), ""};
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
      }
      if (line.starts_with(listening_prefix))
        on_address(line.substr(strlen(listening_prefix)));
      else if (on_line)
        on_line("coordinator", line);
    },
    std::move(on_exit));
  const std::lock_guard guard{shared_->mutex};
  shared_->pid = pid;
}

KeptCoordinator::Start KeptCoordinator::start(const RunEvents& events) {
  auto future = shared_->first.get_future();
  run(
    [shared = shared_](const std::string& address) {
      const std::lock_guard guard{shared->mutex};
      if (!std::exchange(shared->listens, true))
        shared->first.set_value({address, {}});
    },
    [shared = shared_](const ChildProcesses::Exit& exit) {
      const std::unique_lock guard{shared->mutex};
      if (!std::exchange(shared->listens, true))
        shared->first.set_value({"", shared->result_of(exit)});
      else
        shared->ended(exit);
    });
  uint64_t lines = 0;
  auto periods = start_deadline / ask_period; // those of a pause do not count
  while (future.wait_for(ask_period) != std::future_status::ready) {
    if (auto told = told_to_end(events))
      return {"", *std::move(told)};
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
