#pragma once

#include "kernels/collective/reducer.hpp"
#include "kernels/collective/shared_sum.hpp"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace troupe {

struct Chunks;
struct SharedControl;

/// A member of a group that sums vectors in shared memory, without a message
/// on the path: inside one process, or in several that map one another's
/// segments. Members claim runs of what has arrived from everybody, their own
/// first, and in finish() what others have not begun of theirs; so none waits
/// for one that does not get a core. Each chunk is summed along the step's
/// program and written to all members: the bits do not depend on who sums.
///
/// Every member gets the result or none does (I8): completing and ending are
/// decided by one word in the control memory. How it ended, and the reason, are
/// the same on all members. After an end the group stays ended.
class SharedReducer : public Reducer {
public:
  /// Bytes of control memory that a group needs, 128-byte aligned; at most 256
  /// members.
  static size_t control_bytes(uint32_t members);
  /// Prepares control memory for a group; once, before any member joins.
  /// `first` is where its counters begin.
  static void prepare(void* control, uint32_t members, uint64_t first = 0);

  /// Joins as member `layout.rank`; once a rank. `control` (a process's own
  /// memory or in a shared segment) and the segments outlive the object.
  /// segments[i]: where this process maps the memory of member i, in which all
  /// arrays lie that member i brings; offsets travel, addresses do not. Empty
  /// inside one process.
  /// Errors: InputError when `control` was prepared for another number of
  /// members.
  SharedReducer(void* control, ReducerLayout layout,
                std::vector<std::span<std::byte>> segments = {});

  /// As Reducer says, along the fixed tree over the members (PROTOCOL 3).
  /// Short vectors, which travel in slots (1 KiB at most, among many members
  /// less), may lie anywhere.
  CollectiveResult all_reduce(float* data, size_t count,
                              Deadline deadline) override;
  CollectiveResult broadcast(float* data, size_t count, uint32_t root,
                             Deadline deadline) override;

  /// As Reducer says; at most 32 vectors and 8 results a member, the arrays in
  /// its segment.
  void set_buckets(std::vector<std::pair<uint64_t, uint64_t>> buckets,
                   uint64_t hash) override;
  void start(ReduceStep step) override;
  void ready(uint32_t bucket) override;
  void progress() override;
  /// Waits by turning for a while, then sleeping. Where a member that is not
  /// lost stops inside a sum, an aborted finish waits a quarter of a second for
  /// it to leave, then says in its reason that the memory is not to be used
  /// again.
  CollectiveResult finish(Deadline deadline) override;
  void abort(const std::string& reason) override;
  void lost(uint32_t member) override { lost_[member] = true; }
  std::string name() const override { return "shared memory"; }

private:
  using Range = std::pair<uint64_t, uint64_t>;

  void begin(uint64_t step, uint64_t elements, std::span<const Range> ranges);
  void publish(std::span<float* const> vectors,
               std::span<float* const> results);
  void contribute(uint64_t amount);
  bool all_started() const;
  bool arrived(size_t range) const;
  bool compare();
  uint64_t sum_run(size_t range, const Chunks& chunks, uint32_t member);
  void sum_arrived(bool for_others);
  void sum_inside(bool for_others);
  template <class Condition>
  bool waits(const Condition& condition, Deadline deadline);
  CollectiveResult plain(const SumProgram& program, float* data, size_t count,
                         Deadline deadline);
  CollectiveResult result();
  std::string still_busy();
  void end_with(CollectiveEnd end, const std::string& reason);
  std::string late_reason() const;

  SharedControl* control_;
  ReducerLayout layout_;
  std::vector<std::span<std::byte>> segments_;
  SumProgram tree_; ///< over vector 0 of all members
  SharedSum sum_;
  std::vector<const Brought*> brought_; ///< by all, to be compared
  // All members count alike.
  uint64_t sequence_;     ///< of the newest collective
  uint64_t contributed_;  ///< by all of them when it began
  uint64_t target_;       ///< and when it is complete
  uint64_t ordinal_;      ///< of the newest range before it
  uint64_t next_ordinal_; ///< of its own newest range
  // Of the newest collective.
  std::span<const Range> ranges_; ///< buckets, or the whole vector
  Range plain_range_;
  size_t readied_ = 0; ///< ranges that this member has brought
  size_t next_ = 0;    ///< range whose own run is to be summed
  size_t helped_ = 0;  ///< range whose other runs are to be summed
  bool is_plain_ = false;
  bool under_way_ = false;
  bool is_dead_ = false; ///< it began after the group's end
  bool compared_ = false;
  bool differs_ = false;
  std::atomic_flag ending_; ///< a thread of this member ends the group
  std::vector<std::atomic<bool>> lost_; ///< members
};

} // namespace troupe
