#pragma once

#include "tests/sim/printed.hpp"

#include <algorithm>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace caf {
class event_based_actor;
} // namespace caf

namespace troupe::sim {

/// Of an actor, or of one end of a link as its owner sees it; 0: nobody.
using Address = uint64_t;

/// Numbers from one seed (SplitMix64); nothing else in a world is random.
class Random {
public:
  explicit Random(uint64_t seed) : state_(seed) {}
  uint64_t next();
  /// In [0, end).
  uint64_t below(uint64_t end) { return next() % end; }
  /// In [low, high].
  uint64_t between(uint64_t low, uint64_t high) {
    return low + below(high - low + 1);
  }
  bool chance(uint32_t percent) { return below(100) < percent; }

private:
  uint64_t state_;
};

// --- what a Runtime is made of -----------------------------------------------

struct Event {
  uint64_t time;
  uint64_t order;
  std::function<void()> what;
};
struct Later {
  bool operator()(const Event& a, const Event& b) const {
    return a.time != b.time ? a.time > b.time : a.order > b.order;
  }
};
struct Process {
  std::string name;
  bool computes = false;
  std::function<void(const std::string& how)> ended;
  bool alive = true;
  bool paused = false;
  uint64_t paused_until = 0;
  std::deque<std::function<void()>> inbox; ///< while it is paused
  Address main = 0;
  std::vector<Address> actors;
  int tasks = 0;
};
struct Entity {
  uint32_t process = 0; ///< whose it is
  std::shared_ptr<caf::event_based_actor> actor;
  std::function<void(Address sender, const Letter& letter)> handler;
  int64_t link = -1; ///< of a proxy
  int side = 0;      ///< of the link, whose owner sees it
  std::set<Address> watchers;
  std::function<void()> outlived; ///< its process goes on when it quits
  // Of an actor whose thread waits for a disk:
  bool busy = false;
  uint64_t busy_until = 0;
  std::vector<std::function<void()>> unsaid; ///< sent once it is done
  std::deque<std::function<void()>> unread;  ///< came meanwhile
};
/// One way of a connection.
struct Stream {
  uint64_t last = 0;        ///< arrival of the newest message
  uint64_t last_of_all = 0; ///< … of the newest that nothing passes
  std::map<uint32_t, uint64_t> of_slice; ///< … of the others
  uint64_t generation = 0;               ///< counts cuts

  /// Returns when a message arrives that could at `time`; `slice`, if it may
  /// pass those of others.
  uint64_t take(uint64_t time, std::optional<uint32_t> slice) {
    auto& place = slice ? of_slice[*slice] : last_of_all;
    time = std::max({time, place, slice ? last_of_all : last});
    place = time;
    last = std::max(last, time);
    return time;
  }
};
struct Link {
  uint32_t process[2] = {0, 0};
  Address actor[2] = {0, 0};
  Address proxy[2] = {0, 0}; ///< what side i sends to
  Stream stream[2];          ///< from side i
  bool alive = true;
};

/// How long things take, in µs: from, to.
struct Pace {
  uint64_t latency[2] = {20, 300};
  uint64_t compute[2] = {400, 3000}; ///< a task of a worker's executor
  uint64_t task[2] = {5, 120};       ///< of another one's
};
/// What the network does to all messages for a while: they take longer, by up
/// to so much; so many percent of them come again, up to so much later.
struct Disturbance {
  uint64_t slow_until = 0;
  uint64_t slow_extra = 0;
  uint64_t repeat_until = 0;
  uint64_t repeat_later = 0;
  uint32_t repeat_percent = 0;
  struct Slow {
    uint64_t extra = 0; ///< at most
    uint64_t until = 0;
  };
  /// From one process to another.
  std::map<std::pair<uint32_t, uint32_t>, Slow> slow_ways{};
};

} // namespace troupe::sim
