#pragma once

#include "actors/wire/messages.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <utility>

namespace troupe {

/// Dense slices of snapshots on their way to the coordinator: `window` bytes at
/// a time, the next ones when those before were taken. A sign of life shares
/// the connection with them, and would wait behind a whole model.
///
/// Nothing goes while an epoch is sealed. What another coordinator has asked
/// for is dropped then, and what is rolled back when that is known.
/// Pure: send(slice) sends.
class SnapshotOutbox {
public:
  using Send = std::function<void(const SnapshotSlice&)>;

  SnapshotOutbox(size_t window, Send send)
    : window_(window), send_(std::move(send)) {}

  /// A slice that waits, or is on its way, already is dropped.
  void add(const SnapshotSlice& slice);
  void took(const SnapshotTaken& taken);
  /// The epoch of `fence` is proposed. What is on its way may be lost.
  void seal(const Fence& fence);
  /// The epoch that was proposed is entered.
  void enter(bool rollback);

private:
  using Key = std::pair<uint64_t, uint32_t>; ///< version, slice

  void send_next();

  const size_t window_;
  Send send_;
  std::map<Key, SnapshotSlice> waiting_;
  std::map<Key, size_t> under_way_; ///< bytes
  size_t bytes_ = 0;                ///< under way
  bool sealed_ = false;
  uint64_t term_ = 0;
};

} // namespace troupe
