#pragma once

#include "actors/collectives/stream_party.hpp"
#include "actors/collectives/stream_work.hpp"
#include "kernels/base/buffer.hpp"
#include "kernels/collective/reducer.hpp"
#include "strategies/collective_schedule.hpp"

#include <cstdint>
#include <functional>
#include <vector>

namespace troupe {

/// Executes schedules over one flat vector, a schedule for each bucket: sends,
/// adds and copies, chunk by chunk. A chunk moves as soon as what it reads or
/// overwrites is through, not when its round begins.
///
/// On every stream frames stand in the order of (bucket, round); a transfer
/// waits for transfers of earlier rounds only: so the earliest that anyone
/// misses can always go on.
class ScheduleRun : public StreamWork {
public:
  /// `schedules[b]` is bucket b's, in elements of the flat vector.
  ScheduleRun(StreamParty& party, std::vector<Schedule> schedules,
              uint64_t chunk_elements);

  /// `done(bucket)`, if any, is called when a bucket is through.
  void start(float* data, std::function<void(uint32_t)> done = {});

  void ready() override { ++ready_; }
  bool pump() override;
  bool complete() const override;

private:
  struct Item {
    Transfer transfer;
    uint32_t bucket = 0;
    uint32_t round = 0;
    uint32_t number = 0; ///< among those to or from the peer
    uint64_t until = 0;  ///< elements before it are through
    /// Transfers of earlier rounds that touch the same elements.
    std::vector<uint32_t> after;
  };
  /// Indices of a peer's items, in order, and the first that is not through.
  struct Lane {
    std::vector<uint32_t> items;
    size_t next = 0;
  };
  struct Peer {
    Lane sends, receives;
    Buffer scratch; ///< addends
    uint64_t sending_until = 0;
  };

  void add_bucket(uint32_t bucket, const Schedule& schedule);
  bool receive(uint32_t peer);
  bool place(uint32_t peer);
  void take(uint32_t peer);
  bool send(uint32_t peer);
  void close_sent(uint32_t peer);
  bool free_to_move(const Item& item) const;
  uint64_t chunk_end(const Item& item) const;
  FrameHeader header_of(const Item& item) const;
  void through(Item& item, uint64_t until, Lane& lane);

  StreamParty& party_;
  uint64_t chunk_;
  std::vector<Item> items_;
  std::vector<uint32_t> items_of_; ///< bucket
  std::vector<uint32_t> left_;     ///< of each bucket's items
  std::vector<Peer> peers_;
  float* data_ = nullptr;
  std::function<void(uint32_t)> done_;
  uint32_t ready_ = 0;
  uint32_t finished_ = 0; ///< buckets before it are through and told
};

/// Shifts a schedule to where its bucket begins.
Schedule moved_to(Schedule schedule, uint64_t offset);

} // namespace troupe
