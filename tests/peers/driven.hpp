#pragma once

#include "driven_board.hpp"
#include "driven_pattern.hpp"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <memory>
#include <string>
#include <utility>
#include <vector>

/// What a peer of `troupe bench all-reduce` needs besides its library: it is
/// driven round by round, and sleeps in between. Its first line says its
/// version; then it reads lines "BYTES ITERATIONS" and answers each with
/// "MICROSECONDS ALGORITHM", or ends with a line "error TEXT". One iteration
/// is an all-reduce in place, timed from when the last rank begins to when the
/// last one ends; the median over the iterations is answered. What each rank
/// then has is compared with the sum, outside the timing. A Peer has
/// prepare(data, count, algorithm), called before a round on every rank, and
/// all_reduce(data, count).
namespace driven {

inline int64_t now_ns() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now); // the same for all processes
  return now.tv_sec * int64_t{1'000'000'000} + now.tv_nsec;
}

/// The part of one rank in a round.
template <class Peer>
void take_part(Board& board, int rank, float* data, Peer& peer) {
  auto& own = board.rank[rank];
  Pattern mine;
  Pattern sum;
  mine.add(rank);
  for (int other = 0; other < board.ranks; ++other)
    sum.add(other);
  peer.prepare(data, board.count, board.algorithm);
  for (int k = 0; k < board.iterations; ++k) {
    mine.fill(data, board.count, k);
    board.wait_for_all();
    own.begun[k] = now_ns();
    peer.all_reduce(data, board.count);
    own.ended[k] = now_ns();
    board.wait_for_all();
    if (!sum.equals(data, board.count, k))
      own.wrong = true;
  }
}

/// Of rank 0: lets all ranks run one round; returns microseconds.
template <class Peer>
double run_round(Board& board, float* data, Peer& peer) {
  for (int rank = 1; rank < board.ranks; ++rank)
    sem_post(&board.rank[rank].go);
  take_part(board, 0, data, peer);
  board.wait_for_all();
  return board.median_us();
}

struct Free {
  void operator()(float* memory) const { std::free(memory); }
};
using Memory = std::unique_ptr<float, Free>;

inline Memory memory_of(uint64_t count) {
  return Memory{static_cast<float*>(
    std::aligned_alloc(4096, (count * sizeof(float) + 4095) / 4096 * 4096))};
}

/// The ranks but 0: wait for rounds until told to quit.
template <class Peer>
void follow(Board& board, int rank, Peer& peer) {
  for (;;) {
    while (sem_wait(&board.rank[rank].go) != 0) {
    }
    if (board.quit)
      return;
    auto memory = memory_of(board.count);
    take_part(board, rank, memory.get(), peer);
    board.wait_for_all();
  }
}

/// Rank 0: reads requests until the end of the input. With several algorithms,
/// the first request of a size tries each and the best one is kept.
template <class Peer>
int lead(Board& board, const char* version,
         const std::vector<std::string>& algorithms, Peer& peer) {
  std::vector<std::pair<uint64_t, int>> best;
  std::printf("%s\n", version);
  std::fflush(stdout);
  unsigned long long bytes = 0;
  int iterations = 0;
  int status = 0;
  while (status == 0 && std::scanf("%llu %d", &bytes, &iterations) == 2) {
    if (bytes < sizeof(float) || iterations < 1
        || iterations > max_iterations) {
      std::printf("error expected BYTES ITERATIONS\n");
      std::fflush(stdout);
      status = 1;
      continue;
    }
    board.count = bytes / sizeof(float);
    board.iterations = iterations;
    auto memory = memory_of(board.count);
    auto known = std::find_if(best.begin(), best.end(),
                              [&](auto& x) { return x.first == bytes; });
    if (known == best.end()) {
      double least = 0;
      best.emplace_back(bytes, 0);
      known = best.end() - 1;
      for (size_t i = 0; algorithms.size() > 1 && i < 2 * algorithms.size();
           ++i) {
        board.algorithm = static_cast<int>(i % algorithms.size());
        const auto time = run_round(board, memory.get(), peer);
        if (i == 0 || time < least) {
          least = time;
          known->second = board.algorithm;
        }
      }
    }
    board.algorithm = known->second;
    const auto time = run_round(board, memory.get(), peer);
    for (int rank = 0; rank < board.ranks; ++rank)
      if (board.rank[rank].wrong) {
        std::printf("error rank %d has not the sum\n", rank);
        status = 1;
      }
    if (status == 0)
      std::printf("%.3f %s\n", time, algorithms[known->second].c_str());
    std::fflush(stdout);
  }
  board.quit = true;
  for (int rank = 1; rank < board.ranks; ++rank)
    sem_post(&board.rank[rank].go);
  return status;
}

} // namespace driven
