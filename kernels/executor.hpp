#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

namespace troupe {

/// The threads of one compute device. Tasks run one after the other on the
/// lead thread, in the order submitted; a task may spread work over all the
/// device's threads with parallel_for. No actor, no scheduler thread.
class Executor {
public:
  /// Threads are named `name`; each has prepare_compute_thread() called.
  Executor(std::string name, uint32_t threads);
  /// Finishes the running task, drops the queued ones and joins.
  ~Executor();
  Executor(const Executor&) = delete;
  Executor& operator=(const Executor&) = delete;

  uint32_t threads() const;
  void submit(std::function<void()> task);
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
