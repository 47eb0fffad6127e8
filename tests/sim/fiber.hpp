#pragma once

#include "tests/sim/stack_notes.hpp"

#include <ucontext.h>

#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <vector>

namespace troupe::sim {

/// A task of a process that may wait in the middle, as a thread of its own
/// does: it has a stack, and gives it up until it is woken.
class Fiber : public std::enable_shared_from_this<Fiber> {
public:
  Fiber(uint32_t process, std::function<void()> task);
  /// One that waits goes on to its end and waits for nothing any more: what it
  /// waits for has been called off.
  ~Fiber();
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  /// Begins it; `then` is called when it is over, if it comes to that.
  void begin(std::function<void()> then);
  /// It goes on soon, if it waits.
  void wake();
  /// Of the one that runs: others run until wake() or that time. False: it is
  /// to wait for nothing any more.
  static bool wait_until(uint64_t time);
  /// Null: nobody's task runs.
  static Fiber* running();

  uint32_t process() const { return process_; }

private:
  static void enter();
  void perform();
  void go_on();
  void run();

  uint32_t process_;
  std::function<void()> task_;
  std::function<void()> then_;
  std::exception_ptr failure_;
  std::vector<char> stack_;
  ucontext_t own_{};
  ucontext_t caller_{};
  StackNote own_note_;
  StackNote caller_note_;
  uint64_t turn_ = 0; ///< counts waits and what ended them
  bool begun_ = false;
  bool over_ = false;
  bool ends_ = false; ///< it waits for nothing any more
};

/// Whether tasks of executors are such. Set before a world runs.
extern bool tasks_may_wait;

} // namespace troupe::sim
