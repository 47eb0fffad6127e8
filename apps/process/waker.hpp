#pragma once

#include "apps/process/role_processes.hpp"

#include <chrono>
#include <condition_variable>
#include <map>
#include <mutex>
#include <string>
#include <thread>

namespace troupe {

/// Wakes roles that stop themselves: some time after they have.
class Waker {
public:
  explicit Waker(RoleProcesses& processes);
  ~Waker();
  Waker(const Waker&) = delete;
  Waker& operator=(const Waker&) = delete;

  /// The process that plays the role now is to be woken so long after it was
  /// seen to stand still.
  void expect(const std::string& role, std::chrono::milliseconds stands);
  /// Nobody needs to be woken any more.
  void forget();

private:
  using Clock = std::chrono::steady_clock;
  struct Sleeper {
    const HeldProcess* process = nullptr;
    std::chrono::milliseconds stands{0};
    Clock::time_point wakes; ///< the clock's beginning: it does not stand yet
  };
  void run();

  RoleProcesses& processes_;
  std::mutex lock_;
  std::condition_variable changed_;
  std::map<std::string, Sleeper> sleepers_;
  bool over_ = false;
  std::thread thread_; ///< last: it uses what is above
};

} // namespace troupe
