#pragma once

#include "apps/bench/reduce_side.hpp"
#include "kernels/collective/reducer.hpp"

#include <semaphore.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>

namespace troupe {

/// What one member reduces with.
class ReduceCarrier {
public:
  using Deadline = std::chrono::steady_clock::time_point;

  virtual ~ReduceCarrier() = default;
  /// Where this member's vectors lie, `bytes` of them, 64-byte aligned; kept
  /// until the next call.
  virtual float* memory(uint64_t bytes) = 0;
  /// Replaces data [count] by the sum over all members.
  virtual CollectiveResult all_reduce(float* data, uint64_t count,
                                      Deadline deadline) = 0;
  /// False for what only measures a limit: nothing to be verified.
  virtual bool sums() const { return true; }
};

/// The memory through which members, threads or processes, are told what to do
/// and answer. All of them map it.
class ReduceBoard {
public:
  struct Free {
    void operator()(ReduceBoard* board) const;
  };
  /// Errors: std::system_error.
  static std::unique_ptr<ReduceBoard, Free> make(uint32_t members,
                                                 bool exact_in_any_order);
  ~ReduceBoard();

  /// Called by a member: takes part in rounds until told to end.
  void serve(uint32_t rank, ReduceCarrier& carrier);
  /// Called by a member that cannot serve: says why, which fails the round.
  void fail(uint32_t rank, const std::string& why);

  /// Called by the driver: lets all members run a round and waits; returns the
  /// median in microseconds. `alive` is asked now and then, and throws.
  /// Errors: InputError with what a member said.
  double run(const ReduceSide::Round& round,
             const std::function<void()>& alive);
  /// Called by the driver: members end.
  void end();

private:
  struct Member;

  explicit ReduceBoard(uint32_t members, bool exact_in_any_order);
  bool wait_for_all(ReduceCarrier::Deadline deadline);
  void take_part(uint32_t rank, ReduceCarrier& carrier);
  Member& member(uint32_t rank);
  double median();

  const uint32_t members_;
  const bool exact_in_any_order_;
  uint32_t arrived_ = 0; ///< at the barrier, of this phase
  uint32_t phase_ = 0;
  uint32_t failed_ = 0;
  uint32_t over_ = 0;
  ReduceSide::Round round_;
  sem_t finished_;
};

} // namespace troupe
