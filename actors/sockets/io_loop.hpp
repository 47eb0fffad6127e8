#pragma once

#include "kernels/base/steady_clock.hpp"

#include <sys/epoll.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>

namespace troupe {

/// One thread that waits for the descriptors and deadlines of all links of a
/// process and calls their handlers, one after the other. Handlers never block
/// and do not throw.
class IoLoop {
public:
  using Clock = SteadyClock;
  using Task = std::function<void()>;
  /// Given EPOLLIN, EPOLLRDHUP, … as epoll reports them (level-triggered).
  using Handler = std::function<void(uint32_t events)>;

  /// Errors: InputError when the process is out of descriptors.
  IoLoop();
  /// Does what stop() does.
  ~IoLoop();
  IoLoop(const IoLoop&) = delete;
  IoLoop& operator=(const IoLoop&) = delete;

  /// Runs a task on the loop's thread, soon; from any thread. Tasks keep their
  /// order. Returns false, and drops it, after stop().
  bool post(Task task);
  bool on_own_thread() const;
  /// Runs the tasks posted so far, then ends and joins the thread; what is
  /// still watched is forgotten. Not from the loop's own thread.
  void stop();

  // --- on the loop's own thread only ----------------------------------------

  /// Watches a descriptor that the caller owns; the handler may unwatch itself.
  uint64_t watch(int descriptor, uint32_t events, Handler handler);
  void rearm(uint64_t watch, uint32_t events);
  /// To be called before the descriptor is closed. Unknown ones are ignored.
  void unwatch(uint64_t watch);
  /// Calls a task once at a time.
  uint64_t at(Clock::time_point when, Task task);
  /// Unknown ones, and those that have run, are ignored.
  void cancel(uint64_t timer);

private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

} // namespace troupe
