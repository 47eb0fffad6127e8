#include "actors/collectives/schedule_run.hpp"

#include "kernels/base/require.hpp"
#include "kernels/cpu/vector_loops.hpp"

#include <algorithm>

namespace troupe {

Schedule moved_to(Schedule schedule, uint64_t offset) {
  for (auto& round : schedule)
    for (auto& transfer : round) {
      transfer.begin += offset;
      transfer.end += offset;
    }
  return schedule;
}

ScheduleRun::ScheduleRun(StreamParty& party, std::vector<Schedule> schedules,
                         uint64_t chunk_elements)
  : party_(party), chunk_(chunk_elements), peers_(party.size()) {
  for (uint32_t b = 0; b < schedules.size(); ++b)
    add_bucket(b, schedules[b]);
}

void ScheduleRun::add_bucket(uint32_t bucket, const Schedule& schedule) {
  const auto first = items_.size();
  for (uint32_t round = 0; round < schedule.size(); ++round)
    for (const auto& transfer : schedule[round]) {
      const auto index = static_cast<uint32_t>(items_.size());
      Item item{transfer, bucket, round, 0, transfer.begin, {}};
      const bool sends = transfer.kind == TransferKind::send;
      for (auto k = first; k < index; ++k) {
        const auto& other = items_[k];
        const bool reads_only = sends
                                && other.transfer.kind == TransferKind::send;
        if (other.round < round && !reads_only
            && other.transfer.begin < transfer.end
            && transfer.begin < other.transfer.end)
          item.after.push_back(static_cast<uint32_t>(k));
      }
      auto& peer = peers_[transfer.peer];
      auto& lane = sends ? peer.sends : peer.receives;
      // Rounds may be numbered otherwise on the other side; the order is equal.
      item.number = static_cast<uint32_t>(lane.items.size());
      lane.items.push_back(index);
      items_.push_back(std::move(item));
    }
  items_of_.push_back(static_cast<uint32_t>(items_.size() - first));
}

void ScheduleRun::start(float* data, std::function<void(uint32_t)> done) {
  data_ = data;
  done_ = std::move(done);
  for (auto& item : items_)
    item.until = item.transfer.begin;
  for (auto& peer : peers_)
    peer.sends.next = peer.receives.next = 0;
  left_ = items_of_;
  ready_ = 0;
  finished_ = 0;
}

bool ScheduleRun::pump() {
  bool moved = false;
  const auto size = party_.size();
  for (uint32_t k = 1; k < size && !party_.failed(); ++k) {
    const auto peer = (party_.rank() + k) % size;
    moved = receive(peer) || moved;
    if (!party_.failed())
      moved = send(peer) || moved;
  }
  for (; finished_ < ready_ && left_[finished_] == 0; ++finished_)
    if (done_)
      done_(finished_);
  return moved;
}

bool ScheduleRun::complete() const {
  return finished_ == left_.size();
}

/// Whether the item's next chunk reads what is there and overwrites what
/// nobody needs any more.
bool ScheduleRun::free_to_move(const Item& item) const {
  if (item.bucket >= ready_)
    return false;
  const auto begin = item.until;
  const auto end = chunk_end(item);
  return std::all_of(item.after.begin(), item.after.end(), [&](uint32_t k) {
    const auto& other = items_[k];
    return other.transfer.end <= begin || other.transfer.begin >= end
           || other.until >= std::min(other.transfer.end, end);
  });
}

uint64_t ScheduleRun::chunk_end(const Item& item) const {
  return std::min(item.until + chunk_, item.transfer.end);
}

FrameHeader ScheduleRun::header_of(const Item& item) const {
  auto header = party_.header(FrameKind::transfer);
  header.bucket = item.bucket;
  header.part = item.number;
  header.begin = item.until;
  header.payload_bytes =
    static_cast<uint32_t>((chunk_end(item) - item.until) * sizeof(float));
  return header;
}

void ScheduleRun::through(Item& item, uint64_t until, Lane& lane) {
  item.until = until;
  if (until < item.transfer.end)
    return;
  ++lane.next;
  --left_[item.bucket];
}

// --- receiving ---------------------------------------------------------------

bool ScheduleRun::receive(uint32_t p) {
  auto& lane = peers_[p].receives;
  auto& stream = party_.stream(p);
  stream.wanted = false;
  bool moved = false;
  while (lane.next < lane.items.size()) {
    if (party_.failed() || (stream.announced() && !place(p)))
      return moved;
    if (stream.arrived()) {
      take(p);
      return true;
    }
    stream.wanted = true;
    if (!party_.pull(p))
      return moved;
    moved = true;
  }
  return moved;
}

bool ScheduleRun::place(uint32_t p) {
  auto& peer = peers_[p];
  const auto& item = items_[peer.receives.items[peer.receives.next]];
  if (!party_.expect(p, header_of(item)))
    return false;
  if (!free_to_move(item)) {
    party_.stream(p).wanted = false;
    return false;
  }
  auto* to = data_ + item.until;
  if (item.transfer.kind == TransferKind::add) {
    if (peer.scratch.size() == 0)
      peer.scratch = Buffer{chunk_};
    to = peer.scratch.data();
  }
  party_.stream(p).accept(to);
  return true;
}

void ScheduleRun::take(uint32_t p) {
  auto& peer = peers_[p];
  auto& item = items_[peer.receives.items[peer.receives.next]];
  party_.stream(p).release();
  const auto end = chunk_end(item);
  auto* own = data_ + item.until;
  if (item.transfer.kind == TransferKind::add)
    add(own, peer.scratch.data(), own, end - item.until);
  through(item, end, peer.receives);
}

// --- sending -----------------------------------------------------------------

/// What the kernel has taken may be overwritten.
void ScheduleRun::close_sent(uint32_t p) {
  auto& peer = peers_[p];
  if (peer.sending_until == 0 || !party_.stream(p).free())
    return;
  auto& item = items_[peer.sends.items[peer.sends.next]];
  through(item, peer.sending_until, peer.sends);
  peer.sending_until = 0;
}

bool ScheduleRun::send(uint32_t p) {
  auto& peer = peers_[p];
  auto& stream = party_.stream(p);
  bool moved = stream.push();
  close_sent(p);
  if (!stream.free() || peer.sends.next >= peer.sends.items.size())
    return moved;
  const auto& item = items_[peer.sends.items[peer.sends.next]];
  if (!free_to_move(item))
    return moved;
  const auto header = header_of(item);
  party_.post(p, header, data_ + item.until, header.payload_bytes);
  peer.sending_until = chunk_end(item);
  stream.push();
  close_sent(p);
  return true;
}

} // namespace troupe
