#include "kernels/collective/shared_control.hpp"

#include "kernels/base/steady_clock.hpp"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <ctime>
#include <new>

namespace troupe {

namespace {

using Clock = SteadyClock;

/// About 5 µs of turning, then 150 of giving the core away, which costs half a
/// microsecond where nobody wants it: whoever is waited for may. With more
/// members than cores somebody does.
constexpr uint32_t turns = 200;
constexpr uint32_t turns_when_crowded = 10;
constexpr uint32_t yields = 300;
/// A sleeper looks again this often, should a wake-up be lost with the process
/// that owed it.
constexpr auto longest_sleep = std::chrono::milliseconds{10};

/// `state`: collectives completed from bit 16 on; then how the group ended (0:
/// it has not), then by whom.
constexpr uint32_t end_shift = 8;
constexpr uint64_t end_mask = 0xff00;
constexpr uint64_t rank_mask = 0xff;

} // namespace

size_t SharedControl::bytes(uint32_t members) {
  return sizeof(SharedControl) + (sizeof(Member) + 2 * slot_bytes) * members;
}

void SharedControl::prepare(void* memory, uint32_t members, uint64_t first) {
  auto* made = new (memory) SharedControl;
  made->members = members;
  made->first = first;
  made->contributed = first;
  made->state = first << sequence_shift;
  for (uint32_t i = 0; i < members; ++i) {
    auto* member = new (&made->member(i)) Member;
    member->ready = first;
    member->started = first;
    member->claimed = first << 16;
  }
}

SharedControl::Member& SharedControl::member(uint32_t rank) {
  return reinterpret_cast<Member*>(this + 1)[rank];
}

float* SharedControl::slot(uint32_t rank, uint64_t sequence) {
  auto* first = reinterpret_cast<std::byte*>(&member(members));
  return reinterpret_cast<float*>(
    first + (2 * size_t{rank} + (sequence & 1)) * slot_bytes);
}

uint64_t SharedControl::loaded_state() const {
  return std::atomic_ref(const_cast<uint64_t&>(state))
    .load(std::memory_order_seq_cst);
}

uint64_t SharedControl::completed() const {
  return loaded_state() >> sequence_shift;
}

bool SharedControl::ended() const {
  return (loaded_state() & end_mask) != 0;
}

CollectiveEnd SharedControl::end(std::string_view& reason) {
  const auto seen = loaded_state();
  const char* text = member(seen & rank_mask).reason;
  reason = {text, strnlen(text, reason_bytes)};
  return static_cast<CollectiveEnd>((seen >> end_shift) & 0xff);
}

void SharedControl::complete(uint64_t sequence) {
  auto expected = (sequence - 1) << sequence_shift;
  if (std::atomic_ref(state).compare_exchange_strong(
        expected, sequence << sequence_shift, std::memory_order_seq_cst))
    wake();
}

void SharedControl::end_by(uint32_t rank, CollectiveEnd end,
                           std::string_view reason) {
  auto& text = member(rank).reason;
  const auto length = std::min(reason.size(), reason_bytes - 1);
  std::memcpy(text, reason.data(), length);
  text[length] = 0;
  const auto ending = uint64_t{static_cast<uint8_t>(end)} << end_shift | rank;
  std::atomic_ref word(state);
  auto seen = word.load();
  while ((seen & end_mask) == 0
         && !word.compare_exchange_weak(seen, seen | ending))
    ;
  wake();
}

void SharedControl::wake() {
  if (std::atomic_ref(sleepers).load(std::memory_order_seq_cst) == 0)
    return;
  std::atomic_ref(events).fetch_add(1, std::memory_order_seq_cst);
  syscall(SYS_futex, &events, FUTEX_WAKE, INT32_MAX, nullptr, nullptr, 0);
}

SharedControl::Patience SharedControl::patience() const {
  // Of the machine: a member may be bound to a core of its own.
  static const auto cores =
    static_cast<uint32_t>(std::max(1L, sysconf(_SC_NPROCESSORS_ONLN)));
  return {members > cores ? turns_when_crowded : turns, yields};
}

uint32_t SharedControl::lie_down() {
  std::atomic_ref(sleepers).fetch_add(1, std::memory_order_seq_cst);
  return std::atomic_ref(events).load(std::memory_order_seq_cst);
}

void SharedControl::sleep(uint32_t seen, Reducer::Deadline deadline) {
  const auto left = std::chrono::duration_cast<std::chrono::nanoseconds>(
    std::clamp<Clock::duration>(deadline - Clock::now(), Clock::duration{1},
                                longest_sleep));
  const timespec limit{0, left.count()};
  syscall(SYS_futex, &events, FUTEX_WAIT, seen, &limit, nullptr, 0);
}

void SharedControl::stand_up() {
  std::atomic_ref(sleepers).fetch_sub(1, std::memory_order_seq_cst);
}

} // namespace troupe
