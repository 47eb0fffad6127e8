#pragma once

#include "actors/wire/interfaces.hpp"

#include <cstddef>
#include <vector>

namespace troupe {

/// One kind of slices that a shard keeps, and all that it does with them. The
/// shard's actor (shard.cpp) has the epochs: it hands each message that carries
/// the active one to its parts, and leaves the rest to them:
///
///   propose -> leave_epoch() … executor is done -> seal()
///   activate -> [restore()] -> enter_epoch() -> pull, push, … of that epoch
///
/// A new kind of slices is a new part: a file of its own and a line in
/// make_parts().
class ShardPart {
public:
  virtual ~ShardPart() = default;

  // --- epochs ---------------------------------------------------------------

  /// The old epoch is over: whoever waits will ask again.
  virtual void leave_epoch() {}
  /// Adds what it holds whole. Nothing is on the executor.
  virtual void seal(std::vector<SliceState>& report) const = 0;
  /// The job is rolled back: the store holds version 0 of what is kept here.
  virtual void restore() = 0;
  /// The gate is open, nothing of the new epoch has been handed on yet.
  virtual void enter_epoch(const Activate& activation) = 0;

  // --- messages of the active epoch -----------------------------------------
  // A part ignores what is none of its slices'.

  virtual void pull(const Pull& pull, const worker_actor& worker) = 0;
  virtual void pull(const RowPull&, const worker_actor&) {}
  virtual void push(const Push&) {}
  virtual void push(const LeasePush&) {}
  virtual void take(const BlockSums&, const shard_actor& /* asker */) {}
  virtual void take(const Scalars&) {}
  virtual void take(const ChainJoin&) {}
  virtual void take(const SliceCopy&) {}
  virtual void take(const ChainUpdate&) {}
  virtual void take(const ChainScalars&) {}
  virtual void take(const ScalarsHeld&) {}
  virtual void take(const AskShares&, const shard_actor& /* asker */) {}
  virtual void take(const StepShares&) {}
  virtual void end_at(const EndAt&) {}
  virtual void snapshot(const SnapshotRequest&) {}
};

} // namespace troupe
