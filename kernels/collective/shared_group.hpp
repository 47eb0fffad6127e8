#pragma once

#include "kernels/collective/reducer.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace troupe {

/// Members that share memory and sum vectors in it, without a message on the
/// path: each sums one run of everybody's vectors and writes it to all. The
/// memory may be a process's own, or a shared segment that several processes
/// map: it holds counters and offsets, no pointers, and nothing in it needs
/// care when a process dies.
///
/// Sums follow the fixed tree over members (split at the largest power of two,
/// PROTOCOL 3), whatever their number and whatever the length: the bits do not
/// depend on who sums.
class SharedGroup {
public:
  /// Vectors up to this size go through slots of the group's own memory: one
  /// wait instead of two.
  static constexpr size_t slot_bytes = 16 << 10;
  static constexpr uint32_t most_members = 64;

  /// Bytes of memory that a group needs, 64-byte aligned.
  static size_t memory_bytes(uint32_t members);
  /// Prepares memory for a group; once, before any member attaches.
  static void prepare(void* memory, uint32_t members);

  /// Joins as member `rank`. `bases[i]` is where member i's vectors lie from,
  /// in this process: offsets travel, addresses do not. All 0 inside one
  /// process. The memory outlives the object.
  SharedGroup(void* memory, uint32_t rank, std::vector<std::byte*> bases = {});

  uint32_t rank() const { return rank_; }
  uint32_t members() const;

  /// Replaces every member's vector by the sum of all.
  /// Shapes: data [count] float32, 64-byte aligned, behind the member's own
  /// base; count is equal on all members.
  /// Completion: when the call returns done, on this member; nobody else still
  /// reads or writes `data`. Waits by turning, then sleeping.
  CollectiveEnd all_reduce(float* data, size_t count,
                           std::chrono::steady_clock::time_point deadline);

  /// Ends what is under way and all that follows, on every member; from any
  /// thread, for a member that died.
  void abort();

private:
  struct Memory;
  struct Member;

  bool wait(uint32_t Member::*counter, uint32_t sequence,
            std::chrono::steady_clock::time_point deadline);
  void arrive(uint32_t Member::*counter);
  bool counts_agree(size_t count);
  float* vector_of(uint32_t member, uint64_t offset) const;

  Memory* memory_;
  uint32_t rank_;
  std::vector<std::byte*> bases_;
  uint32_t sequence_ = 0;
  CollectiveEnd ended_ = CollectiveEnd::aborted; ///< why, once aborted
};

} // namespace troupe
