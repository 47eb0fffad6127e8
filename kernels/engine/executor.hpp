#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

namespace troupe {

/// What is known of how long a task takes.
enum class TaskSize : uint8_t {
  any,
  brief, ///< less than to wake a thread: some tens of microseconds
};

/// The threads of one compute device. Tasks run one after the other, in the
/// order submitted, on the lead thread; a brief one on the thread that submits
/// it where there is no other to do. A task may spread work over all the
/// device's threads with parallel_for.
class Executor {
public:
  /// Threads are named `name`; each has prepare_compute_thread() called.
  Executor(std::string name, uint32_t threads);
  /// Finishes the running task, drops the queued ones and joins.
  ~Executor();
  Executor(const Executor&) = delete;
  Executor& operator=(const Executor&) = delete;

  uint32_t threads() const;
  /// A brief task may be done on return, and throws to the caller then.
  void submit(std::function<void()> task, TaskSize size = TaskSize::any);
  size_t queued() const;

  /// Calls body(item, thread) for every item in [0, items), at most once
  /// each, thread in [0, threads()); returns when all are done. Items are
  /// claimed in order. Call from a task only. An exception of a body is
  /// rethrown here, once.
  void parallel_for(size_t items,
                    const std::function<void(size_t, uint32_t)>& body);

private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

} // namespace troupe
