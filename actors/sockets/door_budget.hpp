#pragma once

#include "kernels/base/steady_clock.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <optional>
#include <random>
#include <string>
#include <thread>

namespace troupe {

/// What those who have not shown yet that they belong to the job may cost a
/// door in processor time: a burst, and then a small share of the processors,
/// half of it those of one network. Who turns out to belong gets it back. A
/// pure machine of token buckets; clocks and connections are its driver's.
/// Networks are told apart by a hash, in a table that never grows.
class DoorBudget {
public:
  using Clock = SteadyClock;
  using Cost = std::chrono::nanoseconds; ///< of processor time

  static constexpr int share = 500; ///< one part of so many, of each processor
  static constexpr Cost burst = std::chrono::milliseconds{200};
  /// What each turn costs beside what its thread is seen to spend: the system's
  /// own work for a packet, waking up and going to sleep.
  static constexpr Cost beside = std::chrono::microseconds{40};
  static constexpr int vouched = 10;
  /// What has to be there again before a door that rests is opened.
  static constexpr Cost least = std::chrono::microseconds{500};

  /// `processors`: on which this process may run.
  explicit DoorBudget(unsigned processors = std::thread::hardware_concurrency())
    : parts_(std::max(1, share / static_cast<int>(std::max(1U, processors)))) {}

  /// Whether somebody from there is heard. If not, it is sent away at once,
  /// which costs less.
  bool hears(const std::string& network, Clock::time_point now);
  /// What it has cost to send somebody away.
  void turn_away(Cost cost, Clock::time_point now);
  /// What it has cost to let somebody in who has said nothing yet.
  void wait(const std::string& network, Cost cost, Clock::time_point now);
  /// What it has cost to hear somebody.
  void spend(const std::string& network, Cost cost, Clock::time_point now);
  /// Who has cost that belongs to the job; it vouches for `vouched` times as
  /// much of what came from there: members of a busy host come late, and again.
  void refund(const std::string& network, Cost cost, Clock::time_point now);
  /// When the door is to be opened again; nothing: it need not be closed.
  std::optional<Clock::time_point> rests_until(Clock::time_point now);
  /// Whether it was so not long ago: then few should wait before the door,
  /// since they are heard late.
  bool is_crowded(Clock::time_point now) { return all(now).cost > burst / 2; }

private:
  /// What was spent and has not been earned since.
  struct Debt {
    Cost cost{};
    Clock::time_point since{};
  };

  static void earn(Debt& debt, Clock::time_point now, int parts);
  Debt& of(const std::string& network, Clock::time_point now);
  Debt& all(Clock::time_point now);

  const uint64_t salt_ = std::random_device{}();
  int parts_;
  Debt all_{};
  std::array<Debt, 512> networks_{};
};

/// Processor time of this thread, for what a handler costs.
class ThreadTime {
public:
  ThreadTime() : began_(now()) {}
  DoorBudget::Cost spent() const { return now() - began_; }

private:
  static DoorBudget::Cost now();

  DoorBudget::Cost began_;
};

} // namespace troupe
