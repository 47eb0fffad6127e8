#pragma once

#include "actors/voting/proposer_actor.hpp"
#include "kernels/base/steady_clock.hpp"

#include <chrono>
#include <functional>
#include <mutex>
#include <string>

namespace troupe {

/// What a coordinator says while it waits to lead, and for how long it waits
/// for voters that were never there. heard_ may be called on any thread.
class StandbyWatch {
public:
  struct Options {
    std::string asked; ///< its own job, JobOptions as JSON
    /// Without a majority ever, since the last voter was reached.
    std::chrono::milliseconds deadline{};
    std::function<void(const std::string& line)> note; ///< may be empty
  };
  StandbyWatch(Options options, SteadyClock::time_point now);

  /// What the own voter knows to be decided.
  void heard_job(const std::string& asked);
  void heard_coordinator(const std::string& address);

  /// Errors: InputError where the others have another job, or the deadline has
  /// passed.
  void look(const VotersReach& reach, SteadyClock::time_point now);
  /// What it was doing when it was told to stop.
  std::string stopped() const;

private:
  void tell(const std::string& line) const;

  Options options_;
  mutable std::mutex mutex_;
  std::string job_;    ///< the others'; empty: not heard of
  std::string leader_; ///< where it listens; empty: not heard of
  std::string told_;   ///< which of them
  bool ever_ = false;  ///< there was a majority
  bool majority_ = false;
  bool waits_ = false; ///< a line said so
  uint32_t reached_ = 0;
  uint32_t max_reached_ = 0; ///< that were reached at once
  SteadyClock::time_point began_;
  SteadyClock::time_point last_; ///< when one more voter was reached
  SteadyClock::time_point said_; ///< the newest line
  SteadyClock::time_point next_; ///< line
};

} // namespace troupe
