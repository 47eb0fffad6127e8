#include "kernels/collective/shared_group.hpp"

#include "kernels/collective/sum_loops.hpp"
#include "kernels/require.hpp"

#include <immintrin.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <ctime>
#include <new>
#include <thread>

namespace troupe {

namespace {

using Clock = std::chrono::steady_clock;
using kernels::require;

using Counter = std::atomic_ref<uint32_t>;

/// Turns before giving the core away: about 20 µs, the length of a short
/// reduction. With more members than cores the one waited for may need this
/// core, so hardly any.
constexpr uint32_t turns = 2'000;
constexpr uint32_t turns_when_crowded = 20;
/// Then yields before sleeping.
constexpr uint32_t yields = 200;
/// A sleeper looks again this often, should a wake-up be lost with the process
/// that owed it.
constexpr long sleep_ns = 1'000'000;

/// Counters are compared by their difference, so that they may wrap.
bool reached(uint32_t value, uint32_t sequence) {
  return static_cast<int32_t>(value - sequence) >= 0;
}

void sleep_on(uint32_t* word, uint32_t seen) {
  const timespec limit{0, sleep_ns};
  syscall(SYS_futex, word, FUTEX_WAIT, seen, &limit, nullptr, 0);
}

void wake_all(uint32_t* word) {
  syscall(SYS_futex, word, FUTEX_WAKE, INT32_MAX, nullptr, nullptr, 0);
}

} // namespace

/// Written by its member alone; two cache lines, for neighbours are fetched in
/// pairs.
struct alignas(128) SharedGroup::Member {
  uint32_t arrived = 0; ///< sequence of the collective it has come to
  uint32_t done = 0;    ///< sequence of the last one whose run it has summed
  uint64_t offset = 0;  ///< of its vector from its base
  uint64_t count = 0;
};

struct SharedGroup::Memory {
  uint32_t members = 0;
  uint32_t aborted = 0;
  alignas(128) uint32_t sleepers = 0;
  Member member[most_members];

  /// Two for each member, taken in turns: a slot is written again only after
  /// everybody has come to the collective between, and so has read it.
  float* slot(uint32_t rank, uint32_t sequence) {
    auto* first = reinterpret_cast<std::byte*>(this + 1);
    return reinterpret_cast<float*>(
      first + (2 * size_t{rank} + (sequence & 1)) * slot_bytes);
  }
};

size_t SharedGroup::memory_bytes(uint32_t members) {
  return sizeof(Memory) + 2 * slot_bytes * members;
}

void SharedGroup::prepare(void* memory, uint32_t members) {
  require(members > 0 && members <= most_members, "members of a shared group");
  require(reinterpret_cast<uintptr_t>(memory) % 64 == 0,
          "memory of a shared group is not aligned");
  auto* made = new (memory) Memory;
  made->members = members;
}

SharedGroup::SharedGroup(void* memory, uint32_t rank,
                         std::vector<std::byte*> bases)
  : memory_(static_cast<Memory*>(memory)),
    rank_(rank),
    bases_(std::move(bases)) {
  require(rank < memory_->members, "a rank outside the shared group");
  bases_.resize(memory_->members, nullptr);
}

uint32_t SharedGroup::members() const {
  return memory_->members;
}

float* SharedGroup::vector_of(uint32_t member, uint64_t offset) const {
  return reinterpret_cast<float*>(reinterpret_cast<uintptr_t>(bases_[member])
                                  + offset);
}

/// Waits until everybody's counter has reached `sequence`. Arrival is looked at
/// before abortion: what is complete stays complete for all.
bool SharedGroup::wait(uint32_t Member::*counter, uint32_t sequence,
                       Clock::time_point deadline) {
  static const auto cores = std::thread::hardware_concurrency();
  const auto limit = memory_->members > cores ? turns_when_crowded : turns;
  for (uint32_t other = 0; other < memory_->members; ++other) {
    auto& word = memory_->member[other].*counter;
    Counter value(word);
    for (uint32_t turn = 0;; ++turn) {
      const auto seen = value.load(std::memory_order_acquire);
      if (reached(seen, sequence))
        break;
      if (turn < limit) {
        _mm_pause();
        continue;
      }
      if (Counter(memory_->aborted).load(std::memory_order_acquire) != 0)
        return false;
      if (turn < limit + yields) {
        std::this_thread::yield();
        continue;
      }
      if (Clock::now() >= deadline) {
        ended_ = CollectiveEnd::late;
        abort();
        return false;
      }
      Counter sleepers(memory_->sleepers);
      sleepers.fetch_add(1, std::memory_order_seq_cst);
      if (!reached(value.load(std::memory_order_seq_cst), sequence))
        sleep_on(&word, seen);
      sleepers.fetch_sub(1, std::memory_order_seq_cst);
    }
  }
  return true;
}

void SharedGroup::arrive(uint32_t Member::*counter) {
  auto& word = memory_->member[rank_].*counter;
  Counter(word).store(sequence_, std::memory_order_seq_cst);
  if (Counter(memory_->sleepers).load(std::memory_order_seq_cst) > 0)
    wake_all(&word);
}

/// After all have arrived. A member that is one collective ahead found the
/// counts of this one equal; its own is that of the next by now.
bool SharedGroup::counts_agree(size_t count) {
  for (uint32_t i = 0; i < memory_->members; ++i) {
    auto& member = memory_->member[i];
    const auto other =
      std::atomic_ref(member.count).load(std::memory_order_acquire);
    if (other != count
        && Counter(member.arrived).load(std::memory_order_acquire)
             == sequence_) {
      ended_ = CollectiveEnd::mismatch;
      abort();
      return false;
    }
  }
  return true;
}

CollectiveEnd SharedGroup::all_reduce(float* data, size_t count,
                                      Clock::time_point deadline) {
  const auto members = memory_->members;
  if (Counter(memory_->aborted).load(std::memory_order_acquire) != 0)
    return ended_;
  if (members == 1)
    return CollectiveEnd::done;
  const bool is_short = count * sizeof(float) <= slot_bytes;
  auto& own = memory_->member[rank_];
  ++sequence_;
  if (is_short)
    std::memcpy(memory_->slot(rank_, sequence_), data, count * sizeof(float));
  else
    std::atomic_ref(own.offset)
      .store(reinterpret_cast<uintptr_t>(data)
               - reinterpret_cast<uintptr_t>(bases_[rank_]),
             std::memory_order_relaxed);
  std::atomic_ref(own.count).store(count, std::memory_order_release);
  arrive(&Member::arrived);
  if (!wait(&Member::arrived, sequence_, deadline) || !counts_agree(count))
    return ended_;
  float* vectors[most_members];
  for (uint32_t i = 0; i < members; ++i)
    vectors[i] = is_short
                   ? memory_->slot(i, sequence_)
                   : vector_of(i, std::atomic_ref(memory_->member[i].offset)
                                    .load(std::memory_order_relaxed));
  if (is_short) {
    kernels::sum_loops().sum_into(vectors, members, data, count);
    return CollectiveEnd::done;
  }
  // Runs begin at cache lines, so that no line is written by two.
  constexpr size_t line = 16;
  const auto lines = (count + line - 1) / line;
  const auto begin = lines * rank_ / members * line;
  const auto end = std::min(count, lines * (rank_ + 1) / members * line);
  kernels::sum_loops().sum_to_all(vectors, members, begin, end);
  arrive(&Member::done);
  return wait(&Member::done, sequence_, deadline) ? CollectiveEnd::done
                                                  : ended_;
}

void SharedGroup::abort() {
  Counter(memory_->aborted).store(1, std::memory_order_seq_cst);
  for (uint32_t i = 0; i < memory_->members; ++i) {
    wake_all(&memory_->member[i].arrived);
    wake_all(&memory_->member[i].done);
  }
}

} // namespace troupe
