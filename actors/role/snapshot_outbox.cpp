#include "actors/role/snapshot_outbox.hpp"

namespace troupe {
namespace {

size_t bytes_of(const SnapshotSlice& slice) {
  auto bytes = slice.values.bytes();
  for (const auto& slot : slice.state)
    bytes += slot.bytes();
  return bytes;
}

} // namespace

void SnapshotOutbox::add(const SnapshotSlice& slice) {
  const Key key{slice.version, slice.slice};
  if (under_way_.contains(key))
    return;
  waiting_.try_emplace(key, slice);
  send_next();
}

void SnapshotOutbox::took(const SnapshotTaken& taken) {
  const auto found = under_way_.find({taken.version, taken.slice});
  if (found == under_way_.end())
    return;
  bytes_ -= found->second;
  under_way_.erase(found);
  send_next();
}

void SnapshotOutbox::seal(const Fence& fence) {
  sealed_ = true;
  under_way_.clear();
  bytes_ = 0;
  if (std::exchange(term_, fence.term) != fence.term)
    waiting_.clear();
}

void SnapshotOutbox::enter(bool rollback) {
  sealed_ = false;
  if (rollback)
    waiting_.clear();
  send_next();
}

void SnapshotOutbox::send_next() {
  while (!sealed_ && bytes_ < window_ && !waiting_.empty()) {
    const auto next = waiting_.extract(waiting_.begin());
    const auto bytes = bytes_of(next.mapped());
    under_way_.emplace(next.key(), bytes);
    bytes_ += bytes;
    send_(next.mapped());
  }
}

} // namespace troupe
