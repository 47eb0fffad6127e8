#include "apps/process/waker.hpp"

#include <csignal>

namespace troupe {
namespace {

constexpr std::chrono::milliseconds look_period{10};

} // namespace

Waker::Waker(RoleProcesses& processes)
  : processes_(processes), thread_([this] { run(); }) {}

Waker::~Waker() {
  {
    const std::lock_guard guard{lock_};
    over_ = true;
    changed_.notify_all();
  }
  thread_.join();
}

void Waker::expect(const std::string& role, std::chrono::milliseconds stands) {
  processes_.look();
  const std::lock_guard guard{lock_};
  sleepers_[role] = {processes_.playing(role), stands, {}};
  changed_.notify_all();
}

void Waker::forget() {
  const std::lock_guard guard{lock_};
  for (const auto& [role, sleeper] : sleepers_)
    if (sleeper.process && sleeper.wakes != Clock::time_point{})
      sleeper.process->signal(SIGCONT);
  sleepers_.clear();
}

void Waker::run() {
  std::unique_lock guard{lock_};
  while (!over_) {
    if (sleepers_.empty()) {
      changed_.wait(guard);
      continue;
    }
    for (auto at = sleepers_.begin(); at != sleepers_.end();) {
      auto& [process, stands, wakes] = at->second;
      const bool known = wakes != Clock::time_point{};
      if (!known && process && process->stopped())
        wakes = Clock::now() + stands;
      if (process && !process->ended() && (!known || Clock::now() < wakes)) {
        ++at;
        continue;
      }
      if (process)
        process->signal(SIGCONT);
      at = sleepers_.erase(at);
    }
    changed_.wait_for(guard, look_period);
  }
}

} // namespace troupe
