#pragma once

#include "kernels/table/sparse_table.hpp"

#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstring>
#include <map>
#include <random>
#include <set>
#include <vector>

/// A table whose rows are updated one by one, and what tests compare with it.
namespace troupe::table_reference {

inline constexpr size_t width = 3;

inline void some_initial(uint64_t first, uint64_t rows, float* out) {
  for (uint64_t i = 0; i < rows * width; ++i)
    out[i] = static_cast<float>((first * width + i) % 1000) / 1000 - 0.5f;
}

inline TableOptions options_for(OptimizerKind kind, Eviction eviction = {}) {
  return {width, state_slots(kind), some_initial, eviction};
}

inline std::vector<uint64_t> random_ids(std::mt19937_64& random, size_t count,
                                        uint64_t range) {
  std::set<uint64_t> ids;
  while (ids.size() < count)
    ids.insert(random() % range * (range > 10'000 ? 97 : 1));
  return {ids.begin(), ids.end()};
}

inline std::vector<float> random_values(std::mt19937_64& random, size_t count) {
  std::normal_distribution<float> draw;
  std::vector<float> values(count);
  for (auto& value : values)
    value = draw(random);
  return values;
}

inline UpdateArgs moment_of(uint64_t step) {
  UpdateArgs args;
  args.samples = 48;
  args.step = step;
  args.learning_rate = 0.1f;
  return args;
}

/// The same table, each row updated alone.
struct Reference {
  explicit Reference(OptimizerKind kind) { rule.kind = kind; }

  struct Row {
    std::vector<float> values;
    std::vector<float> state;
  };
  Row& row(uint64_t id) {
    auto& found = rows[id];
    if (found.values.empty()) {
      found.values.resize(width);
      some_initial(id, 1, found.values.data());
      found.state.resize(2 * width);
    }
    return found;
  }
  void update(std::span<const uint64_t> ids, const float* gradient,
              UpdateArgs args) {
    for (auto id : ids) {
      auto& its = row(id);
      args.gradient_sum = gradient;
      args.in = args.out = its.values.data();
      args.state_in = args.state_out = its.state.data();
      args.state_stride = args.count = width;
      troupe::update(rule, args);
      gradient += width;
    }
  }
  std::vector<float> values(std::span<const uint64_t> ids) {
    std::vector<float> out(ids.size() * width);
    for (size_t i = 0; i < ids.size(); ++i)
      if (auto at = rows.find(ids[i]); at != rows.end())
        std::copy_n(at->second.values.data(), width, out.data() + i * width);
      else
        some_initial(ids[i], 1, out.data() + i * width);
    return out;
  }

  OptimizerOptions rule;
  std::map<uint64_t, Row> rows;
};

inline std::vector<float> read(const SparseTable& table,
                               std::span<const uint64_t> ids) {
  std::vector<float> out(ids.size() * width);
  table.read(pages_of(ids), out.data());
  return out;
}

inline std::vector<float> read_before(const SparseTable& table,
                                      std::span<const uint64_t> ids) {
  std::vector<float> out(ids.size() * width);
  table.read_before(pages_of(ids), out.data());
  return out;
}

inline bool same_bits(const std::vector<float>& a,
                      const std::vector<float>& b) {
  return a.size() == b.size()
         && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

/// A memory file, as a role supervisor keeps one.
struct MemoryFile {
  MemoryFile() : descriptor(memfd_create("table", MFD_CLOEXEC)) {}
  ~MemoryFile() { close(descriptor); }
  int descriptor;
};

/// Updates `steps` times with what the seed draws.
inline void run(SparseTable& table, Reference& reference, uint32_t seed,
                uint64_t steps, uint64_t range) {
  std::mt19937_64 random(seed);
  for (uint64_t step = 0; step < steps; ++step) {
    const auto ids = random_ids(random, 1 + random() % 90, range);
    const auto gradient = random_values(random, ids.size() * width);
    table.update(reference.rule, moment_of(step + 1), pages_of(ids),
                 gradient.data());
    reference.update(ids, gradient.data(), moment_of(step + 1));
  }
}

/// Of a process that was killed.
struct Killed {
  uint64_t version = 0; ///< it had committed that
  bool inside = false;  ///< of an update
};

/// Lets `train(update)` make updates in another process, by
/// `update(step, change)` from step 0 on, and kills it at any moment after
/// `at_least` and up to 60 more.
template <class Train>
Killed killed_training(std::mt19937_64& random, uint64_t at_least,
                       const Train& train) {
  auto* shared = static_cast<std::atomic<uint64_t>*>(mmap(
    nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  const auto child = fork();
  if (child == 0)
    train([&](uint64_t step, const auto& change) {
      shared[1].store(2 * step + 1);
      change();
      shared[1].store(2 * step + 2);
      shared[0].store(step + 1); // the commit
    });
  const auto wait = at_least + random() % 60;
  while (shared[0].load() < wait)
    ;
  for (auto spin = random() % 20'000; spin > 0; --spin)
    asm volatile("");
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  const Killed killed{shared[0].load(), shared[1].load() % 2 == 1};
  munmap(shared, 4096);
  return killed;
}

} // namespace troupe::table_reference
