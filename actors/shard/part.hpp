#pragma once

#include "actors/wire/interfaces.hpp"

#include <variant>
#include <vector>

namespace troupe {

/// Functions of one name, for std::visit.
template <class... Each>
struct Overload : Each... {
  using Each::operator()...;
};
template <class... Each>
Overload(Each...) -> Overload<Each...>;

/// What a shard is told in an epoch.
using ShardMessage =
  std::variant<Pull, RowPull, Push, LeasePush, BlockSums, Scalars, ChainJoin,
               SliceCopy, ChainUpdate, ChainScalars, ScalarsHeld, AskShares,
               StepShares, EndAt, SnapshotRequest>;

/// One kind of slices that a shard keeps, and all that it does with them. The
/// shard's actor (shard.cpp) has the epochs: it hands on each message that
/// carries the active one, and leaves the rest to its part:
///
///   propose -> leave_epoch() … executor is done -> seal()
///   activate -> [restore()] -> enter_epoch() -> take() of that epoch
///
/// A new kind of slices is a new part: a file of its own and a line in
/// make_part().
class ShardPart {
public:
  virtual ~ShardPart() = default;

  /// The old epoch is over: whoever waits will ask again.
  virtual void leave_epoch() {}
  /// Adds what it holds whole. Nothing is on the executor.
  virtual void seal(std::vector<SliceState>& report) const = 0;
  /// The job is rolled back: the store holds the checkpoint that all go back
  /// to, or else what the job began with.
  virtual void restore() = 0;
  /// The gate is open, nothing of the new epoch has been handed on yet.
  virtual void enter_epoch(const Activate& activation) = 0;

  /// A message of the active epoch, and who sent it; one that is none of its
  /// slices' is ignored.
  virtual void take(const ShardMessage& message,
                    const caf::strong_actor_ptr& from) = 0;
};

} // namespace troupe
