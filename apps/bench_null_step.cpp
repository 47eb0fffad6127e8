#include "actors/job_runner.hpp"
#include "apps/commands.hpp"
#include "apps/reduce_table.hpp"
#include "kernels/error.hpp"
#include "kernels/files/atomic_file.hpp"
#include "kernels/replica.hpp"

#include <nlohmann/json.hpp>

#include <cstdio>
#include <span>
#include <vector>

namespace troupe {

namespace {

constexpr int trials = 5;
constexpr uint64_t steps = 300;
constexpr uint32_t samples_of_a_worker = 2;

struct NullStep {
  double p50_ms = 0;
  double p99_ms = 0;
};

/// The roles of a real run, in this process: so many workers, one shard.
JobOptions job_of(uint32_t workers) {
  JobOptions job;
  job.model = "sleep:0ms";
  job.data = "synthetic:digits?samples=4000";
  job.strategy = Strategy::parameter_server;
  job.processes = false;
  job.workers = workers;
  job.shards = 1;
  job.devices = {"cpu:0"};
  job.threads_per_device = 1;
  job.virtual_ranks = workers;
  job.global_batch = samples_of_a_worker * workers;
  job.optimizer = "sgd";
  job.rule.kind = parse_optimizer(job.optimizer);
  job.epochs = 0;
  job.steps = steps;
  job.eval_every = 0;
  return job;
}

NullStep run_once(const JobOptions& job, const JobData& data,
                  std::string& sha256) {
  RunOptions run;
  run.job = job;
  const auto result = run_in_process(run, data);
  if (result.status != 0)
    throw InputError("bench null-step: " + result.line);
  const auto summary = nlohmann::json::parse(result.summary);
  if (summary["steps"] != steps)
    throw InputError("bench null-step: the run did not make its steps");
  const std::string found = summary["weights_sha256"];
  if (!sha256.empty() && found != sha256)
    throw InputError("bench null-step: two runs have different weights: "
                     "nothing is measured");
  sha256 = found;
  return {summary["step_ms"]["p50"], summary["step_ms"]["p99"]};
}

nlohmann::json measure(uint32_t workers) {
  const auto job = job_of(workers);
  auto data = load_job_data(job);
  data.eval = nullptr;
  std::vector<double> p50;
  std::vector<double> p99;
  std::string sha256;
  for (int trial = 0; trial < trials; ++trial) {
    const auto step = run_once(job, data, sha256);
    p50.push_back(step.p50_ms);
    p99.push_back(step.p99_ms);
  }
  std::printf("%7u %10.3f %10.3f %7.1f %% %12.1f\n", workers, median_of(p50),
              median_of(p99), spread_of(p50) * 100,
              median_of(p50) * 1e3 / workers);
  std::fflush(stdout);
  return {{"name", "null step"},      {"members", workers},
          {"bytes", sizeof(float)},   {"ours_us", median_of(p50) * 1e3},
          {"spread", spread_of(p50)}, {"peer", nullptr},
          {"peer_version", nullptr},  {"peer_us", nullptr},
          {"ratio", nullptr},         {"limit_share", nullptr}};
}

} // namespace

int run_bench_null_step(const Settings& settings) {
  select_isa("auto");
  std::printf("null step of a synchronous parameter server in one process: "
              "each worker pulls and\npushes one scalar and computes nothing, "
              "one shard sums, updates and commits.\nmedian of %d runs of %llu "
              "steps, weights equal in all; spread: the middle half\n",
              trials, static_cast<unsigned long long>(steps));
  std::printf("%7s %10s %10s %9s %12s\n", "workers", "p50 ms", "p99 ms",
              "spread", "us a worker");
  nlohmann::json rows = nlohmann::json::array();
  for (auto workers : settings.bench.workers)
    rows.push_back(measure(workers));
  if (!settings.json.empty()) {
    const auto text = rows.dump(2) + "\n";
    write_atomically(settings.json, {std::as_bytes(std::span{text})});
  }
  return 0;
}

} // namespace troupe
