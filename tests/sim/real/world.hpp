#pragma once

#include "actors/wire/caf.hpp"
#include "tests/sim/runtime_parts.hpp"

#include <caf/scheduler/test_coordinator.hpp>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <queue>
#include <string>
#include <vector>

namespace troupe::real {

/// CAF's own actors of several made-up processes in one thread, in virtual time
/// (µs): CAF's testing scheduler holds the actors that have messages, and one
/// of them, drawn from the seed, takes one message at a time. Whatever else
/// happens is an event at a time. Equal seeds give equal runs.
class World {
public:
  explicit World(uint64_t seed);
  ~World();
  World(const World&) = delete;
  World& operator=(const World&) = delete;
  /// The one that runs: a program has one at a time.
  static World& get();
  /// The clock of whoever asks; it goes on without a world.
  static uint64_t clock();

  caf::actor_system& system() { return *system_; }
  sim::Random& random() { return random_; }
  uint64_t now() const { return now_; }
  uint64_t events() const { return done_; }

  void at(uint64_t time, std::function<void()> what);
  void after(uint64_t delay, std::function<void()> what) {
    at(now_ + delay, std::move(what));
  }
  /// Runs the next event or lets an actor take a message.
  /// Errors: false: nothing will ever happen again.
  bool step();
  /// Is called after each step.
  std::function<void()> settle;

  // --- processes ------------------------------------------------------------

  using Ended = std::function<void(const std::string& how)>;
  /// `ended` is called once, when it is killed or its main actor ends.
  uint32_t new_process(std::string name, Ended ended);
  const std::string& name(uint32_t process) const {
    return processes_[process].name;
  }
  bool alive(uint32_t process) const { return processes_[process].alive; }
  bool paused(uint32_t process) const {
    return processes_[process].paused_until > now_;
  }
  uint64_t paused_until(uint32_t process) const {
    return processes_[process].paused_until;
  }
  /// None of its actors takes a message until then, and none of its events
  /// happens.
  void pause(uint32_t process, uint64_t until);
  void on_end(uint32_t process, Ended ended) {
    processes_[process].ended = std::move(ended);
  }
  /// As SIGKILL: its actors end at once, without a word.
  void kill(uint32_t process, const std::string& how);
  /// An actor of a process; the process ends with its main actor.
  void adopt(uint32_t process, const caf::strong_actor_ptr& actor, bool main);
  /// Errors: 0: an actor of no process.
  uint32_t process_of(const caf::strong_actor_ptr& actor) const;
  /// Runs it after a delay, later where the process stands still, never where
  /// it has died.
  void in_process(uint32_t process, uint64_t delay, std::function<void()> what);
  /// Whose executors and links are being made.
  uint32_t spawning = 0;
  /// Is told of each process that ends, before its actors have.
  std::function<void(uint32_t process)> dies;

  bool trace = false;
  void note(const std::string& line) const;

private:
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
    Ended ended;
    bool alive = true;
    uint64_t paused_until = 0;
    std::vector<caf::strong_actor_ptr> actors;
  };

  bool run_actor();
  void advance(uint64_t time);
  /// When the next of CAF's own timeouts is due.
  uint64_t next_timeout();

  sim::Random random_;
  uint64_t order_ = 0;
  uint64_t done_ = 0;
  uint64_t now_;
  std::priority_queue<Event, std::vector<Event>, Later> queue_;
  std::vector<Process> processes_{1};
  std::map<caf::actor_id, uint32_t> process_of_;
  std::map<const caf::resumable*, uint32_t> jobs_of_;
  std::unique_ptr<caf::actor_system_config> config_;
  std::unique_ptr<caf::actor_system> system_;
  caf::scheduler::test_coordinator* scheduler_ = nullptr;
};

/// A broken invariant of docs/protocol.md, "I3: …".
class Broken : public std::runtime_error {
public:
  using std::runtime_error::runtime_error;
};

} // namespace troupe::real
