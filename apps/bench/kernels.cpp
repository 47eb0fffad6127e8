#include "apps/bench/kernel_cases.hpp"
#include "apps/settings/commands.hpp"
#include "kernels/base/buffer.hpp"
#include "kernels/engine/replica.hpp"
#include "kernels/files/atomic_file.hpp"
#include "kernels/graph/graph.hpp"

#include <nlohmann/json.hpp>
#include <time.h>

#include <algorithm>
#include <cstdio>
#include <cstring>

namespace troupe {

namespace {

/// Processor time of this thread: one that waits for a core is not a kernel
/// that is slow.
double seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec)
         + 1e-9 * static_cast<double>(now.tv_nsec);
}

constexpr double batch_seconds = 2e-3; // least time that is measured at once

/// Seconds of one run, over repetitions.
struct Times {
  double median = 0;
  double spread = 0; ///< the middle half of the repetitions, over the median
};

Times summary(std::vector<double> times) {
  std::sort(times.begin(), times.end());
  const auto at = [&](double share) {
    return times[static_cast<size_t>(share
                                     * static_cast<double>(times.size() - 1))];
  };
  return {at(0.5), (at(0.75) - at(0.25)) / at(0.5)};
}

/// Runs in one measurement: as many as fill batch_seconds.
uint64_t runs_of(const std::function<void()>& run) {
  run();
  const auto begin = seconds();
  run();
  return static_cast<uint64_t>(
    std::clamp(batch_seconds / (seconds() - begin), 1.0, 1e6));
}

double one_batch(const std::function<void()>& run, uint64_t runs) {
  const auto begin = seconds();
  for (uint64_t i = 0; i < runs; ++i)
    run();
  return (seconds() - begin) / static_cast<double>(runs);
}

/// A copy that touches as many bytes as a kernel.
class Copy {
public:
  explicit Copy(size_t touched)
    : bytes_(std::max<size_t>(touched / 2, 1)),
      from_(bytes_ / 4 + 1),
      to_(bytes_ / 4 + 1) {
    from_.fill(1);
    to_.fill(0);
  }
  void run() {
    std::memcpy(to_.data(), from_.data(), bytes_);
    asm volatile("" ::"r"(to_.data()) : "memory");
  }

private:
  size_t bytes_;
  Buffer from_;
  Buffer to_;
};

/// The machine's ceiling of products: a large square one.
double product_rate(uint32_t repetitions) {
  constexpr size_t n = 1024;
  KernelCase square = square_product(n);
  square.verify();
  const auto runs = runs_of(square.run);
  std::vector<double> times;
  for (uint32_t i = 0; i < repetitions; ++i)
    times.push_back(one_batch(square.run, runs));
  return square.flops / summary(times).median;
}

struct Row {
  KernelCase measured;
  Times ours;
  Times copy;
  double share = 0; ///< of the ceiling
};

Row measure(const KernelCase& given, uint32_t repetitions, double ceiling) {
  given.verify();
  Row row;
  row.measured = given;
  Copy copy{given.bytes};
  const auto copying = [&] { copy.run(); };
  const auto runs = runs_of(given.run);
  const auto copies = runs_of(copying);
  std::vector<double> ours;
  std::vector<double> theirs;
  for (uint32_t i = 0; i < repetitions; ++i) {
    ours.push_back(one_batch(given.run, runs));
    theirs.push_back(one_batch(copying, copies));
  }
  row.ours = summary(ours);
  row.copy = summary(theirs);
  row.share = given.flops > 0 ? given.flops / row.ours.median / ceiling
                              : row.copy.median / row.ours.median;
  return row;
}

void print(const Row& row) {
  const auto& given = row.measured;
  const bool products = given.flops > 0;
  const auto amount = products ? given.flops : static_cast<double>(given.bytes);
  std::printf("%-20s %-34s %9.1f %7.1f %s %5.1f %% %5.0f %%\n",
              given.name.c_str(), given.shape.c_str(), row.ours.median * 1e6,
              amount / row.ours.median * 1e-9, products ? "GFLOP/s" : "GB/s   ",
              row.ours.spread * 100, row.share * 100);
  std::fflush(stdout);
}

nlohmann::json json_of(const Row& row) {
  const bool products = row.measured.flops > 0;
  nlohmann::json out = {{"name", row.measured.name + " " + row.measured.shape},
                        {"members", 1},
                        {"bytes", row.measured.bytes},
                        {"ours_us", row.ours.median * 1e6},
                        {"spread", row.ours.spread},
                        {"peer", nullptr},
                        {"peer_version", nullptr},
                        {"peer_us", nullptr},
                        {"ratio", nullptr},
                        {"limit_share", row.share}};
  if (!products) {
    out["peer"] = "memory copy of as many bytes";
    out["peer_us"] = row.copy.median * 1e6;
    out["ratio"] = row.copy.median / row.ours.median;
  }
  return out;
}

} // namespace

int run_bench_kernels(const Settings& settings) {
  const auto isa = select_isa(settings.job.isa);
  prepare_compute_thread();
  const auto repetitions = settings.repetitions;
  const auto ceiling = product_rate(repetitions);
  std::printf("kernels on one thread, %s, %s; median of %u repetitions, "
              "processor time\nspread: the middle half of them; limit: of "
              "products a square one of 1024 (%.1f GFLOP/s),\nelse a memory "
              "copy that touches as many bytes, each measured in this run\n",
              isa.c_str(), library_versions().c_str(), repetitions,
              ceiling * 1e-9);
  std::printf("%-20s %-34s %9s %7s %7s %7s %7s\n", "kernel", "shape", "us", "",
              "", "spread", "limit");
  nlohmann::json rows = nlohmann::json::array();
  for (const auto& makers :
       {operator_cases(), update_cases(), compression_cases()})
    for (const auto& make : makers)
      for (const auto& given : make()) {
        const auto row = measure(given, repetitions, ceiling);
        print(row);
        rows.push_back(json_of(row));
      }
  if (!settings.json.empty()) {
    const auto text = rows.dump(2) + "\n";
    write_atomically(settings.json, {std::as_bytes(std::span{text})});
  }
  return 0;
}

} // namespace troupe
