#include "actors/launch/job_runner.hpp"
#include "apps/bench/reduce_table.hpp"
#include "apps/settings/commands.hpp"
#include "kernels/base/error.hpp"
#include "kernels/engine/replica.hpp"
#include "kernels/files/atomic_file.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <span>
#include <string>
#include <vector>

namespace troupe {

namespace {

constexpr int trials = 5;
constexpr uint64_t max_steps = 300;
constexpr uint64_t fewest_steps = 5;
/// Bounds the steps with rows: what few workers do takes less time, and a table
/// just filled takes a while to be as it stays.
constexpr uint64_t max_row_steps = 3000;
/// What all workers send in a run: what is large makes fewer steps.
constexpr uint64_t run_bytes = uint64_t{4} << 30;
constexpr uint32_t samples_of_a_worker = 2;
constexpr uint32_t rows_of_a_worker = 32;
constexpr uint64_t row_values = 16;

struct Measured {
  double p50_ms = 0;
  double p99_ms = 0;
};
struct NullStep {
  Measured step;
  Measured exchange; ///< from a worker's push to the next version
};

/// The roles of a real run, in this process.
JobOptions job_of(uint32_t workers, uint32_t shards, uint64_t bytes) {
  JobOptions job;
  job.model = "sleep:0ms-" + std::to_string(bytes / sizeof(float));
  job.data = "synthetic:digits?samples=4000";
  job.strategy = Strategy::parameter_server;
  job.processes = false;
  job.workers = workers;
  job.shards = shards;
  job.devices = {"cpu:0"};
  job.threads_per_device = 1;
  job.virtual_ranks = workers;
  job.global_batch = samples_of_a_worker * workers;
  job.optimizer = "sgd";
  job.rule.kind = parse_optimizer(job.optimizer);
  job.epochs = 0;
  job.steps = std::clamp(run_bytes / (workers * bytes), fewest_steps,
                         max_steps);
  job.eval_every = 0;
  return job;
}

/// Each worker has a sample of random rows of a table that is full; a run
/// reaches no row twice but by chance.
JobOptions table_job_of(uint32_t workers, uint32_t shards, uint64_t bytes) {
  auto job = job_of(workers, shards, sizeof(float));
  const auto rows = std::max<uint64_t>(1, bytes / sizeof(float) / row_values);
  job.model = "sleep:0ms-" + std::to_string(row_values);
  job.steps = std::max(max_steps, max_row_steps / workers);
  job.data = "synthetic:rows?samples=" + std::to_string(job.steps * workers)
             + "&ids=" + std::to_string(rows_of_a_worker)
             + "&vocabulary=" + std::to_string(rows);
  job.tables = "sparse";
  job.table_fill = true;
  job.digests = false; // they would take longer than the run
  job.global_batch = workers;
  job.learning_rate = 0.25;
  job.deadlines.join_ms = 300'000; // while tables are filled
  return job;
}

/// What a run takes: parameters and gradient of each worker, sums of pairs,
/// two versions.
uint64_t memory_of(uint32_t workers, uint64_t bytes) {
  return (uint64_t{workers} * 5 / 2 + 3) * bytes;
}

uint64_t free_memory() {
  std::ifstream file{"/proc/meminfo"};
  for (std::string name; file >> name;)
    if (uint64_t kib = 0; name == "MemAvailable:" && file >> kib)
      return kib << 10;
  return ~uint64_t{0};
}

NullStep run_once(const JobOptions& job, const JobData& data,
                  std::string& sha256) {
  RunOptions run;
  run.job = job;
  const auto result = run_in_process(run, data);
  if (result.status != 0)
    throw InputError("bench null-step: " + result.line);
  const auto summary = nlohmann::json::parse(result.summary);
  if (summary["steps"] != job.steps)
    throw InputError("bench null-step: the run did not make its steps");
  const std::string found = summary["weights_sha256"];
  if (!sha256.empty() && found != sha256)
    throw InputError("bench null-step: two runs have different weights: "
                     "nothing is measured");
  sha256 = found;
  const auto& step = summary["step_ms"];
  const auto& exchange = summary["exchange_ms"];
  return {{step["p50"], step["p99"]}, {exchange["p50"], exchange["p99"]}};
}

/// Errors: InputError where rows that are there from the beginning, or other
/// numbers of shards, make other weights.
void verify_tables(uint32_t workers, uint32_t shards) {
  auto job = table_job_of(workers, shards, uint64_t{4} << 20);
  job.digests = true;
  const auto data = load_job_data(job);
  std::string sha256;
  run_once(job, data, sha256);
  job.table_fill = false;
  job.shards = 1;
  run_once(job, data, sha256);
}

double median(const std::vector<NullStep>& runs,
              double (*figure)(const NullStep&)) {
  std::vector<double> figures;
  figures.reserve(runs.size());
  for (const auto& run : runs)
    figures.push_back(figure(run));
  return median_of(std::move(figures));
}

nlohmann::json measure(const JobOptions& job, const std::string& name,
                       uint64_t bytes) {
  const auto workers = job.workers;
  auto data = load_job_data(job);
  data.eval = nullptr;
  std::vector<NullStep> runs;
  std::vector<double> steps;
  std::string sha256;
  for (int trial = 0; trial < trials; ++trial) {
    runs.push_back(run_once(job, data, sha256));
    steps.push_back(runs.back().step.p50_ms);
  }
  const auto p50 = median_of(steps);
  std::printf("%10s %7u %10.3f %10.3f %7.1f %% %10.3f %10.3f %11.1f\n",
              bytes_in_words(bytes).c_str(), workers, p50,
              median(runs, [](const NullStep& x) { return x.step.p99_ms; }),
              spread_of(steps) * 100,
              median(runs, [](const NullStep& x) { return x.exchange.p50_ms; }),
              median(runs, [](const NullStep& x) { return x.exchange.p99_ms; }),
              p50 * 1e3 / workers);
  std::fflush(stdout);
  return {{"name", name},
          {"members", workers},
          {"bytes", bytes},
          {"ours_us", p50 * 1e3},
          {"spread", spread_of(steps)},
          {"peer", nullptr},
          {"peer_version", nullptr},
          {"peer_us", nullptr},
          {"ratio", nullptr},
          {"limit_share", nullptr}};
}

} // namespace

int run_bench_null_step(const Settings& settings) {
  select_isa("auto");
  const auto& bench = settings.bench;
  std::printf(
    "null step of a synchronous parameter server in one process: each worker "
    "pulls and\npushes all parameters and waits for nothing else; %u shards "
    "sum, update and commit.\nmedian of %d runs of %llu to %llu steps, weights "
    "equal in all; spread: the middle half.\nexchange: from a worker's push "
    "to the next version. Of --filled tables each worker\npulls and pushes 32 "
    "random rows of 16 values, in %llu steps or, of few workers, %llu in "
    "all.\n",
    bench.shards, trials, static_cast<unsigned long long>(fewest_steps),
    static_cast<unsigned long long>(max_steps),
    static_cast<unsigned long long>(max_steps),
    static_cast<unsigned long long>(max_row_steps));
  std::printf("%10s %7s %10s %10s %9s %10s %10s %11s\n", "bytes", "workers",
              "p50 ms", "p99 ms", "spread", "exchange", "p99 ms",
              "us a worker");
  nlohmann::json rows = nlohmann::json::array();
  const auto add = [&](const JobOptions& job, const std::string& name,
                       uint64_t bytes, uint64_t needed) {
    if (needed > free_memory())
      std::printf("%10s %7u skipped: needs about %llu GiB of memory\n",
                  bytes_in_words(bytes).c_str(), job.workers,
                  static_cast<unsigned long long>(needed >> 30));
    else
      rows.push_back(measure(job, name, bytes));
  };
  const auto shards = std::to_string(bench.shards) + " shards";
  for (auto bytes : bench.null_bytes)
    for (auto workers : bench.workers)
      add(job_of(workers, bench.shards, bytes), "null step, " + shards, bytes,
          memory_of(workers, bytes));
  for (auto bytes : bench.filled_bytes)
    for (auto workers : bench.workers) {
      if (bytes == bench.filled_bytes.front())
        verify_tables(workers, bench.shards);
      add(table_job_of(workers, bench.shards, bytes),
          "null step, 32 rows of a full table, " + shards, bytes,
          bytes + bytes / 8);
    }
  if (!settings.json.empty()) {
    const auto text = rows.dump(2) + "\n";
    write_atomically(settings.json, {std::as_bytes(std::span{text})});
  }
  return 0;
}

} // namespace troupe
