#pragma once

#include "kernels/base/steady_clock.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace troupe {

/// How a collective ended.
enum class CollectiveEnd : uint8_t {
  done,
  aborted,  ///< abort() was called, or a member is lost: no result
  late,     ///< the deadline passed; the group is aborted
  mismatch, ///< members brought different things; aborted
};

/// A verdict and its reason; all members get the same (I8).
struct CollectiveResult {
  CollectiveEnd end = CollectiveEnd::done;
  std::string reason; ///< unless done: one line that names the member
  /// A member that stopped in the middle may write to arrays later: nobody is
  /// to use them for another group.
  bool spoils_memory = false;
};

/// One addend of a step's sum: vector `vector` of member `member`, pushed on a
/// stack; then `merges` times the two newest are replaced by their sum, the
/// older one on the left. So a list of addends says which fixed tree is summed
/// (PROTOCOL 3), empty leaves left out.
struct SumTerm {
  uint32_t member = 0;
  uint32_t vector = 0;
  uint32_t merges = 0;

  friend bool operator==(const SumTerm&, const SumTerm&) = default;
};
using SumProgram = std::vector<SumTerm>;

/// Called for runs of elements whose sum is known; `sum[0]` is that of element
/// `begin`. Writes elements [begin, end) of this member's results.
using RunUpdate =
  std::function<void(uint64_t begin, uint64_t end, const float* sum)>;

/// What stays the same over all steps of a group.
struct ReducerLayout {
  uint32_t rank = 0;
  uint32_t members = 1;
  /// Element ranges of the flat gradient, in the order they become final.
  std::vector<std::pair<uint64_t, uint64_t>> buckets;
  /// Hash of the bucket layout (PROTOCOL 20); members must agree.
  uint64_t hash = 0;
  /// In shared memory: members 0 to this - 1 sum for all; 0: all do.
  uint32_t summing = 0;
};

/// What a member brings to a step and takes from it. All arrays are flat
/// (elements as in ReducerLayout::buckets), 64-byte aligned, and not touched by
/// the caller between start() and the end of finish(), but for buckets that are
/// not ready yet.
struct ReduceStep {
  uint64_t step = 0;
  SumProgram program;          ///< equal on all members
  std::vector<float*> vectors; ///< this member's addends
  /// What all members hold equally when finish() has returned done.
  std::vector<float*> results;
  /// Empty: results[0] is the sum; it may be vectors[0]. Otherwise it is called
  /// for every element by at least one member, in this member's calls of
  /// progress() and finish(); what it writes to results reaches all members.
  RunUpdate update;
  /// The vectors stay as they are, whatever becomes of the step, unless they
  /// are results too; else they may be overwritten.
  bool keeps_vectors = false;
};

/// One member's part in a group that reduces buckets of gradients together.
/// Used by one thread at a time; abort() from any.
class Reducer {
public:
  using Deadline = SteadyClock::time_point;

  virtual ~Reducer() = default;

  /// Cuts the gradient in another way from the next step on; all members alike.
  virtual void set_buckets(std::vector<std::pair<uint64_t, uint64_t>> buckets,
                           uint64_t hash) = 0;
  /// Begins a step. The one before it has been finished.
  virtual void start(ReduceStep step) = 0;
  /// All this member's vectors are final in the bucket: it may travel. Buckets
  /// become ready in order, each once a step. Never waits.
  virtual void ready(uint32_t bucket) = 0;
  /// Moves on what can be moved on without waiting.
  virtual void progress() = 0;
  /// Waits until all buckets are reduced. Nobody reads or writes this member's
  /// arrays any more when it returns.
  virtual CollectiveResult finish(Deadline deadline) = 0;
  /// Ends what is under way and all that follows, as soon as it can on every
  /// member.
  virtual void abort(const std::string& reason) = 0;
  /// That member's process has ended: it touches nothing any more, so nobody
  /// need wait for it to leave. From any thread; abort() follows.
  virtual void lost(uint32_t /*member*/) {}

  // Outside steps; all members make the same calls in the same order. Shapes:
  // data [count], which may differ from call to call; in shared memory 64-byte
  // aligned and in the member's segment. They return when done on this member.

  /// Replaces every member's vector by the sum of all.
  virtual CollectiveResult all_reduce(float* data, size_t count,
                                      Deadline deadline) = 0;
  /// Replaces every member's vector by that of `root`, bit by bit.
  virtual CollectiveResult broadcast(float* data, size_t count, uint32_t root,
                                     Deadline deadline) = 0;

  /// Payload bytes given to peers so far, as sent and before compression; 0
  /// where memory is shared.
  struct Traffic {
    uint64_t sent_bytes = 0;
    uint64_t plain_bytes = 0;
  };
  virtual Traffic traffic() const { return {}; }
  /// The carrier's and the algorithm's name, for people.
  virtual std::string name() const = 0;
};

} // namespace troupe
