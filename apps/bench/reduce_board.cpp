#include "apps/bench/reduce_board.hpp"

#include "apps/bench/reduce_pattern.hpp"
#include "apps/settings/settings.hpp"
#include "kernels/base/error.hpp"

#include <sched.h>
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <new>
#include <system_error>
#include <vector>

namespace troupe {

namespace {

using Clock = std::chrono::steady_clock; // the same for all processes
using SharedCounter = std::atomic_ref<uint32_t>;

/// How long one iteration may take, and a round.
constexpr auto iteration_deadline = std::chrono::seconds{20};
constexpr auto round_deadline = std::chrono::minutes{2};
/// How often a waiting driver looks at its members.
constexpr auto look = std::chrono::milliseconds{100};
constexpr uint32_t turns = 1'000; // before giving the core away

int64_t now_ns() {
  return std::chrono::nanoseconds{Clock::now().time_since_epoch()}.count();
}

/// Returns whether the semaphore was taken within `limit`.
bool take(sem_t& semaphore, std::chrono::milliseconds limit) {
  const auto end = std::chrono::nanoseconds{now_ns()} + limit;
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(end);
  const timespec until{seconds.count(), (end - seconds).count()};
  return sem_clockwait(&semaphore, CLOCK_MONOTONIC, &until) == 0;
}

} // namespace

struct alignas(128) ReduceBoard::Member {
  sem_t go;
  char failure[200];
  int64_t begun[ReduceSide::max_iterations];
  int64_t ended[ReduceSide::max_iterations];
};

ReduceBoard::Member& ReduceBoard::member(uint32_t rank) {
  const auto first = (sizeof(ReduceBoard) + 127) / 128 * 128;
  auto* bytes = reinterpret_cast<std::byte*>(this) + first;
  return *reinterpret_cast<Member*>(bytes + rank * sizeof(Member));
}

namespace {

constexpr size_t board_bytes = 4 << 20; // untouched pages cost nothing

} // namespace

std::unique_ptr<ReduceBoard, ReduceBoard::Free>
ReduceBoard::make(uint32_t members, bool exact_in_any_order) {
  static_assert(sizeof(ReduceBoard)
                  + (BenchOptions::max_members + 1) * sizeof(Member)
                <= board_bytes);
  auto* memory = mmap(nullptr, board_bytes, PROT_READ | PROT_WRITE,
                      MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED)
    throw std::system_error(errno, std::generic_category(), "mmap");
  return std::unique_ptr<ReduceBoard, Free>{
    new (memory) ReduceBoard(members, exact_in_any_order)};
}

ReduceBoard::ReduceBoard(uint32_t members, bool exact_in_any_order)
  : members_(members), exact_in_any_order_(exact_in_any_order) {
  sem_init(&finished_, 1, 0);
  for (uint32_t i = 0; i < members_; ++i)
    sem_init(&member(i).go, 1, 0);
}

ReduceBoard::~ReduceBoard() {
  for (uint32_t i = 0; i < members_; ++i)
    sem_destroy(&member(i).go);
  sem_destroy(&finished_);
}

void ReduceBoard::Free::operator()(ReduceBoard* board) const {
  board->~ReduceBoard();
  munmap(board, board_bytes);
}

// -- members ------------------------------------------------------------------

bool ReduceBoard::wait_for_all(Clock::time_point deadline) {
  const auto before = SharedCounter(phase_).load();
  if (SharedCounter(arrived_).fetch_add(1) + 1 == members_) {
    SharedCounter(arrived_).store(0);
    SharedCounter(phase_).store(before + 1);
    return true;
  }
  for (uint32_t turn = 0; SharedCounter(phase_).load() == before; ++turn) {
    if (SharedCounter(failed_).load() != 0)
      return false;
    if (turn < turns)
      continue;
    if (Clock::now() > deadline)
      return false;
    sched_yield();
  }
  return true;
}

void ReduceBoard::fail(uint32_t rank, const std::string& why) {
  if (SharedCounter(failed_).exchange(1) == 0) // the first one is the cause
    std::snprintf(member(rank).failure, sizeof(Member::failure), "%s",
                  why.c_str());
  sem_post(&finished_);
}

void ReduceBoard::take_part(uint32_t rank, ReduceCarrier& carrier) {
  const auto mine = ReducePattern::of(rank, exact_in_any_order_);
  const auto sum = ReducePattern::sum(members_, exact_in_any_order_);
  const auto count = round_.bytes / sizeof(float);
  auto* data = carrier.memory(round_.bytes);
  auto& own = member(rank);
  for (uint32_t k = 0; k < round_.iterations; ++k) {
    mine.fill(data, count, k);
    const auto deadline = Clock::now() + iteration_deadline;
    if (!wait_for_all(deadline))
      return fail(rank, "another member did not come");
    own.begun[k] = now_ns();
    const auto result = carrier.all_reduce(data, count, deadline);
    own.ended[k] = now_ns();
    if (result.end != CollectiveEnd::done)
      return fail(rank, "the all-reduce failed: " + result.reason);
    if (!wait_for_all(deadline))
      return fail(rank, "another member did not come");
    if (carrier.sums() && !sum.equals(data, count, k))
      return fail(rank, "its vector is not the sum");
  }
  sem_post(&finished_);
}

void ReduceBoard::serve(uint32_t rank, ReduceCarrier& carrier) {
  for (;;) {
    if (!take(member(rank).go, round_deadline))
      continue; // a parent that died takes its children with it
    if (SharedCounter(over_).load() != 0)
      return;
    take_part(rank, carrier);
  }
}

// -- the driver ---------------------------------------------------------------

double ReduceBoard::run(const ReduceSide::Round& round,
                        const std::function<void()>& alive) {
  round_ = round;
  for (uint32_t i = 0; i < members_; ++i)
    sem_post(&member(i).go);
  const auto deadline = Clock::now() + round_deadline;
  for (uint32_t done = 0; done < members_;) {
    if (take(finished_, look)) {
      ++done;
    } else {
      alive();
      if (Clock::now() > deadline)
        throw InputError("a round took longer than two minutes");
    }
    if (SharedCounter(failed_).load() == 0)
      continue;
    for (uint32_t i = 0; i < members_; ++i)
      if (member(i).failure[0] != 0)
        throw InputError("member " + std::to_string(i) + ": "
                         + member(i).failure + "; nothing is measured");
  }
  return median();
}

double ReduceBoard::median() {
  std::vector<double> times;
  for (uint32_t k = 0; k < round_.iterations; ++k) {
    int64_t begun = 0;
    int64_t ended = 0;
    for (uint32_t i = 0; i < members_; ++i) {
      begun = std::max(begun, member(i).begun[k]);
      ended = std::max(ended, member(i).ended[k]);
    }
    times.push_back(static_cast<double>(ended - begun) * 1e-3);
  }
  std::nth_element(times.begin(), times.begin() + times.size() / 2,
                   times.end());
  return times[times.size() / 2];
}

void ReduceBoard::end() {
  SharedCounter(over_).store(1);
  for (uint32_t i = 0; i < members_; ++i)
    sem_post(&member(i).go);
}

} // namespace troupe
