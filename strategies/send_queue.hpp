#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <iterator>
#include <optional>
#include <utility>

namespace troupe {

/// The messages that wait for their turn on a link. One with a rank goes ahead
/// of those with a larger one; one without a rank keeps its place, and nobody
/// passes it. So messages of one rank, of one slice that is, stay in order.
///
/// A message is passed by `max_passing_bytes` in all and no more: it does not
/// starve, and what a receiver keeps until a slice's last node is there fits
/// its window (link_terms()): two senders whose queues differ never fill theirs
/// with what the other one has not sent.
///
/// Source: Jayarajan et al., "Priority-based Parameter Propagation for
/// Distributed DNN Training" (P3), 2019, and Peng et al., "A Generic
/// Communication Scheduler for Distributed DNN Training Acceleration"
/// (ByteScheduler), SOSP 2019.
template <class Message>
class SendQueue {
public:
  explicit SendQueue(uint64_t max_passing_bytes)
    : max_passing_bytes_(max_passing_bytes) {}

  void put(Message message, uint64_t bytes, std::optional<uint32_t> rank) {
    auto at = queue_.end();
    while (rank && at != queue_.begin()
           && lets_pass(*std::prev(at), bytes, *rank))
      --at;
    std::for_each(at, queue_.end(),
                  [bytes](Waiting& x) { x.passed_bytes += bytes; });
    queue_.insert(at, {std::move(message), bytes, rank, 0});
    bytes_ += bytes;
  }

  bool empty() const { return queue_.empty(); }
  Message& front() { return queue_.front().message; }
  uint64_t front_bytes() const { return queue_.front().bytes; }
  void pop() {
    bytes_ -= queue_.front().bytes;
    queue_.pop_front();
  }
  uint64_t bytes() const { return bytes_; } ///< of all

private:
  struct Waiting {
    Message message;
    uint64_t bytes;
    std::optional<uint32_t> rank;
    uint64_t passed_bytes;
  };

  bool lets_pass(const Waiting& before, uint64_t bytes, uint32_t rank) const {
    return before.rank && *before.rank > rank
           && before.passed_bytes + bytes <= max_passing_bytes_;
  }

  uint64_t max_passing_bytes_;
  uint64_t bytes_ = 0;
  std::deque<Waiting> queue_;
};

} // namespace troupe
