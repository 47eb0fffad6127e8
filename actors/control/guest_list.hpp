#pragma once

#include "kernels/base/steady_clock.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <list>
#include <optional>
#include <unordered_map>
#include <vector>

namespace troupe {

/// Who stands at a door and has not been let in: each for two seconds, and only
/// so many at a time. Beyond, the one who came first of those who have said
/// nothing has to go, and of those who have spoken where all have: who knocks
/// and is silent keeps no member out. A pure machine; connections are its
/// driver's.
///
///   arrives --> silent --spoke()--> speaking --left()--> let in, or gone
///                  |                   |
///                  +---- late, or somebody's room is needed: gone
class GuestList {
public:
  using Id = uint64_t;
  using Clock = SteadyClock;

  static constexpr auto patience = std::chrono::seconds{2};

  explicit GuestList(size_t max_guests) : max_guests_(max_guests) {}

  struct Arrival {
    Id id = 0;
    std::optional<Id> gone; ///< whose room it has now
  };
  Arrival arrives(Clock::time_point now);
  /// It has begun to say who it is.
  void spoke(Id id);
  /// Let in, or gone by itself. Unknown ones are ignored.
  void left(Id id);
  /// There are no descriptors: who has to go for the next; nothing where nobody
  /// is here.
  std::optional<Id> room();
  /// Whose time is over.
  std::vector<Id> late(Clock::time_point now);
  /// When to ask for that again; nothing where nobody is here.
  std::optional<Clock::time_point> next_deadline() const;
  size_t size() const { return places_.size(); }

private:
  struct Guest {
    Id id = 0;
    Clock::time_point deadline;
  };
  using Row = std::list<Guest>; ///< in the order in which they came
  struct Place {
    Row* row = nullptr;
    Row::iterator at;
  };

  size_t max_guests_;
  Id last_ = 0;
  Row silent_;
  Row speaking_; ///< in the order in which they began to speak
  std::unordered_map<Id, Place> places_;
};

} // namespace troupe
