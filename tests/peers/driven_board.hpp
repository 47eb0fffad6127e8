#pragma once

#include <fcntl.h>
#include <sched.h>
#include <semaphore.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <new>
#include <vector>

namespace driven {

constexpr int max_ranks = 16;
constexpr int max_iterations = 2'048;

/// Memory that all ranks map; a file, so that unrelated processes can.
struct Board {
  struct Rank {
    sem_t go;
    std::atomic<bool> wrong = false;
    int64_t begun[max_iterations];
    int64_t ended[max_iterations];
  };

  explicit Board(int count) : ranks(count) {
    for (auto& rank : rank)
      if (sem_init(&rank.go, 1, 0) != 0)
        std::perror("sem_init");
  }

  const int ranks;
  std::atomic<uint32_t> arrived = 0;
  std::atomic<uint32_t> phase = 0;
  bool quit = false;
  uint64_t count = 0;
  int iterations = 0;
  int algorithm = 0;
  Rank rank[max_ranks];

  static Board* create(const char* path, int ranks) {
    const int file = open(path, O_CREAT | O_RDWR | O_TRUNC, 0600);
    if (file < 0 || ftruncate(file, sizeof(Board)) != 0)
      return nullptr;
    auto* memory = map(file);
    return memory == nullptr ? nullptr : new (memory) Board(ranks);
  }
  static Board* attach(const char* path) {
    return static_cast<Board*>(map(open(path, O_RDWR)));
  }

  /// As troupe's own side does it: turns, then yields.
  void wait_for_all() {
    const auto before = phase.load();
    if (arrived.fetch_add(1) + 1 == static_cast<uint32_t>(ranks)) {
      arrived = 0;
      phase = before + 1;
      return;
    }
    for (int turn = 0; phase.load() == before; ++turn)
      if (turn > 1'000)
        sched_yield();
  }

  /// Of the last round: from when the last rank began to when the last ended.
  double median_us() const {
    std::vector<double> times;
    for (int k = 0; k < iterations; ++k) {
      int64_t begun = 0;
      int64_t ended = 0;
      for (int i = 0; i < ranks; ++i) {
        begun = std::max(begun, rank[i].begun[k]);
        ended = std::max(ended, rank[i].ended[k]);
      }
      times.push_back(static_cast<double>(ended - begun) * 1e-3);
    }
    std::sort(times.begin(), times.end());
    return times[times.size() / 2];
  }

private:
  static void* map(int file) {
    if (file < 0)
      return nullptr;
    auto* memory = mmap(nullptr, sizeof(Board), PROT_READ | PROT_WRITE,
                        MAP_SHARED, file, 0);
    close(file);
    return memory == MAP_FAILED ? nullptr : memory;
  }
};

} // namespace driven
