#pragma once

#include "kernels/base/intrinsics.hpp"
#include "kernels/base/steady_clock.hpp"
#include "kernels/collective/brought.hpp"
#include "kernels/collective/reducer.hpp"

#include <sched.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace troupe {

/// The memory by which a SharedReducer's members meet: counters and offsets, no
/// pointers. All counters grow and are never reset; 48 bits last nine years at
/// a microsecond each.
///
/// One word decides: `state` holds the collectives completed and, once the
/// group has ended, how and by whom. Completing and ending are both exchanges
/// of that word, so all members see the same (I8).
struct SharedControl {
  static constexpr size_t reason_bytes = 256;
  static constexpr uint32_t max_members = 256;
  static constexpr uint32_t sequence_shift = 16; ///< of `state`
  /// Short plain sums travel in slots.
  static constexpr size_t slot_bytes = 1 << 10;

  struct alignas(128) Member {
    uint64_t ready = 0;   ///< ordinal of the newest bucket that has arrived
    uint64_t started = 0; ///< its newest collective, to name who is missing
    /// Chunks of its run that are taken: ordinal of the bucket, then 16 bits.
    alignas(128) uint64_t claimed = 0;
    uint32_t busy = 0; ///< it may touch others' arrays
    alignas(128) char reason[reason_bytes] = {}; ///< why it ended the group
    Brought brought[2]; ///< by turns: the next one may begin meanwhile
  };

  uint32_t members = 0;
  uint64_t first = 0; ///< where the counters began
  alignas(128) uint64_t state = 0;
  /// Starts and chunks, of all members together: what makes a collective
  /// complete.
  uint64_t contributed = 0;
  alignas(128) uint32_t sleepers = 0;
  uint32_t events = 0; ///< sleepers sleep on it

  static size_t bytes(uint32_t members);
  static void prepare(void* memory, uint32_t members, uint64_t first);
  Member& member(uint32_t rank);
  /// Two for each member, by turns as `brought`.
  float* slot(uint32_t rank, uint64_t sequence);

  /// The collectives completed.
  uint64_t completed() const;
  bool ended() const;
  /// How the group ended, and the reason's text.
  CollectiveEnd end(std::string_view& reason);
  /// Completes collective `sequence`, unless the group has ended; wakes.
  void complete(uint64_t sequence);
  /// Ends the group, unless that has been done: the member's reason first.
  void end_by(uint32_t rank, CollectiveEnd end, std::string_view reason);
  void wake();

  /// Waits until `holds()`, the group has ended or the deadline has passed;
  /// tells whether `holds()`. Turns as long as a short reduction takes, gives
  /// the core away a few times, then sleeps.
  template <class Condition>
  bool wait(const Condition& holds, Reducer::Deadline deadline) {
    const auto [turns, yields] = patience();
    for (uint32_t turn = 0; !holds(); ++turn) {
      if (ended())
        return holds();
      if (turn < turns) {
        kernels::pause_core();
      } else if (turn < turns + yields) {
        sched_yield();
      } else {
        if (SteadyClock::now() >= deadline)
          return false;
        const auto seen = lie_down();
        if (!holds() && !ended())
          sleep(seen, deadline);
        stand_up();
      }
    }
    return true;
  }

private:
  struct Patience {
    uint32_t turns;
    uint32_t yields;
  };
  Patience patience() const;
  uint64_t loaded_state() const;
  uint32_t lie_down();
  void sleep(uint32_t seen, Reducer::Deadline deadline);
  void stand_up();
};

} // namespace troupe
