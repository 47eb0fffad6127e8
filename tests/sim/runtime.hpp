#pragma once

#include "tests/sim/runtime_parts.hpp"

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <queue>
#include <string>
#include <utility>
#include <vector>

namespace troupe::sim {

/// Processes, the messages between them and a clock, in one thread. Everything
/// that happens is an event at a virtual time (µs); equal seeds give equal
/// runs.
///
/// Two kinds of streams lead from process to process, both in order: control
/// streams, made by the first message, and links, which processes open and
/// which belong to the two actors at their ends. A stream that is cut loses
/// what is under way, and each end is told. A copy of a message can come later.
class Runtime {
public:
  explicit Runtime(uint64_t seed);
  ~Runtime();
  Runtime(const Runtime&) = delete;
  Runtime& operator=(const Runtime&) = delete;
  /// The one whose events are running.
  static Runtime& get();
  /// No world runs any more, whatever became of the last one.
  static void abandon();
  Random& random() { return random_; }
  Pace pace;
  Disturbance network;
  uint64_t now() const { return now_; }
  uint64_t events() const { return done_; }

  void at(uint64_t time, std::function<void()> what);
  void after(uint64_t delay, std::function<void()> what) {
    at(now_ + delay, std::move(what));
  }
  bool step(); ///< runs the next event; false: there is none

  using Ended = std::function<void(const std::string& how)>;
  /// `ended` is called when it ends by itself or is killed.
  uint32_t new_process(std::string name, bool computes, Ended ended);
  void on_end(uint32_t process, Ended ended) {
    processes_[process].ended = std::move(ended);
  }
  bool alive(uint32_t process) const { return processes_[process].alive; }
  bool paused(uint32_t process) const { return processes_[process].paused; }
  const std::string& name(uint32_t process) const {
    return processes_[process].name;
  }
  void kill(uint32_t process, const std::string& how);
  /// Nothing happens in it until `until`; then all that did not.
  void pause(uint32_t process, uint64_t until);
  bool computing(uint32_t process) const {
    return processes_[process].tasks > 0;
  }

  Address new_address(uint32_t process);
  void keep(uint32_t process, std::shared_ptr<caf::event_based_actor> actor);
  using Handler = std::function<void(Address sender, const Letter& letter)>;
  /// Something in a process that takes messages and is no actor.
  Address new_endpoint(uint32_t process, Handler handler);
  uint32_t process_of(Address address) const;

  void send(Address from, Address to, Letter letter);
  void send_later(Address from, Address to, uint64_t delay, Letter letter);
  void answer(Address actor, std::function<void()> what);
  void later(Address actor, uint64_t delay, std::function<void()> what);
  void monitor(Address watcher, Address target);
  void demonitor(Address watcher, Address target);
  /// Who is found at a port; it is alive.
  void listens(uint16_t port, Address actor) { listens_[port] = actor; }
  /// Calls done() with it, or with 0, after a way there and back.
  void dial(Address from, uint16_t port, uint64_t deadline,
            std::function<void(Address found)> done);
  /// The actor that runs now waits: what it says and is told waits with it.
  void holds_up(uint64_t time);
  /// Once the actor quits, then() is called, and its process lives.
  void outlives(Address actor, std::function<void()> then) {
    entities_[actor].outlived = std::move(then);
  }
  using Linked = std::function<void(Address peer, const std::string& error)>;
  /// Opens a link from an actor to the main actor of a process.
  void link(uint32_t process, uint32_t peer, Address target, Linked done);
  /// Who is linked to.
  void accept(uint32_t process, Address target);
  uint64_t arrival(uint32_t from, uint32_t to); ///< of what is sent now
  /// Cuts links between two processes, or their control stream; returns how
  /// many there were.
  size_t cut_links(uint32_t a, uint32_t b);
  size_t cut_control(uint32_t a, uint32_t b);
  /// Ends a process's links to all but these.
  void keep_links(uint32_t process, const std::set<std::string>& peers);
  /// Nothing gets from `a` to `b` until `until`; it is not lost.
  void block(uint32_t a, uint32_t b, uint64_t until);
  bool is_blocked(uint32_t a, uint32_t b) const;

  /// Is shown each message that arrives: sender's and receiver's process.
  using Tap = std::function<void(uint32_t from, uint32_t to, const Letter&)>;
  void tap(Tap tap) { tap_ = std::move(tap); }
  bool trace = false;
  void note(const std::string& line);
  uint64_t under_way(const Type* type) const; ///< messages of that type

  uint32_t spawning() const { return spawning_; }
  void spawning(uint32_t process) { spawning_ = process; }
  uint64_t task_time(uint32_t process);
  void count_task(uint32_t process, int change) {
    processes_[process].tasks += change;
  }
  /// Runs `what` in a process after a time, unless either is gone by then.
  void in_process(uint32_t process, uint64_t delay, std::weak_ptr<void> lives,
                  std::function<void()> what);

private:
  Stream& control(uint32_t from, uint32_t to);
  void end_if_quits(std::shared_ptr<caf::event_based_actor> actor);
  void go_on(Address actor); ///< it has waited
  void give(Address from, Address to, const Letter& letter);
  void deliver(Address from, Address to, const Letter& letter);
  void in_process(uint32_t process, std::function<void()> what);
  void end_link(size_t link, const std::string& why, bool loses);
  void tell_watchers(Address target, uint64_t time, const std::string& why);
  void tell_watcher(Address watcher, Address target, uint64_t time,
                    const std::string& why);
  void schedule(Stream& stream, uint32_t from_process, uint32_t to_process,
                Address from, Address to, const Letter& letter);

  Runtime* before_;
  Random random_;
  uint64_t now_ = 1'000'000;
  uint64_t order_ = 0;
  uint64_t done_ = 0;
  std::priority_queue<Event, std::vector<Event>, Later> queue_;
  std::vector<Process> processes_;
  std::vector<Entity> entities_{1};
  std::vector<std::shared_ptr<caf::event_based_actor>> graves_;
  std::vector<Link> links_;
  std::map<std::pair<uint32_t, uint32_t>, Stream> control_;
  std::map<std::pair<uint32_t, uint32_t>, uint64_t> blocked_;
  std::map<const Type*, uint64_t> under_way_;
  uint32_t spawning_ = 0;
  Tap tap_;
  std::map<uint16_t, Address> listens_;
  Address running_ = 0; ///< the actor that is handed a message
};

} // namespace troupe::sim
