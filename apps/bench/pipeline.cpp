#include "actors/job/stage_layers.hpp"
#include "actors/launch/job_runner.hpp"
#include "apps/settings/commands.hpp"
#include "kernels/base/error.hpp"
#include "kernels/engine/replica.hpp"
#include "kernels/files/atomic_file.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace troupe {
namespace {

constexpr double pipeline_bar = 0.03;
/// A pass forward, and the two halves of one backward.
constexpr uint64_t wait_passes = 3;

/// A job of stages that wait, and how long each does in a pass.
struct PipelineCase {
  JobOptions job;
  std::vector<uint32_t> ms; ///< by part: of the stages' chunks, in order
  /// By part: whether it is computed again; nothing where the schedule is none.
  std::vector<uint8_t> again;
};

/// "sleep:5ms+5ms", of one stage "sleep:5ms+0ms": it has to be cut somewhere.
std::string layers_that_wait(const std::vector<uint32_t>& ms) {
  std::string text = "sleep:";
  for (size_t i = 0; i < ms.size(); ++i)
    text += (i == 0 ? "" : "+") + std::to_string(ms[i]) + "ms";
  return text + (ms.size() == 1 ? "+0ms" : "") + "-16";
}

/// "5", or "5, 7" of stages in turn.
std::string listed_ms(const std::vector<uint32_t>& ms) {
  std::string text;
  for (auto one : ms)
    text += (text.empty() ? "" : ", ") + std::to_string(one);
  return text;
}

/// The roles of a real run, in this process; every micro-batch is a sample.
PipelineCase pipeline_case(const BenchOptions& bench,
                           const std::string& schedule, uint32_t stages,
                           uint32_t micro_batches) {
  PipelineCase out;
  const bool interleaved = schedule == "interleaved";
  const auto parts = stages * (interleaved ? bench.chunks : 1);
  for (uint32_t i = 0; i < parts; ++i)
    out.ms.push_back(bench.pass_ms[i % stages % bench.pass_ms.size()]);
  auto& job = out.job;
  job.model = layers_that_wait(out.ms);
  job.data = "synthetic:digits?samples=20000";
  job.strategy = Strategy::pipeline;
  job.stages = stages;
  job.schedule.order = schedule;
  job.schedule.recompute = bench.recompute;
  job.schedule.chunks = interleaved ? bench.chunks : 0;
  for (uint32_t i = 1; i < parts; ++i)
    job.cut.split_at += (i == 1 ? "wait_" : ",wait_") + std::to_string(i);
  job.devices = {"cpu:0"};
  job.threads_per_device = 1;
  job.virtual_ranks = job.global_batch = micro_batches;
  job.optimizer = "sgd";
  job.rule.kind = parse_optimizer(job.optimizer);
  job.epochs = 0;
  job.steps = bench.pipeline_steps;
  job.eval_every = 0;
  if (mistake_of(pipeline_shape(job, micro_batches)))
    return out;
  const Job made{job, micro_batches};
  for (uint32_t part = 0; part < parts; ++part) {
    const auto options = stage_options(made.options, made.graph, part, 1,
                                       Precision::float32);
    out.again.push_back(
      options.recompute
      || (!options.layers.empty() && options.layers[part] != 0));
  }
  return out;
}

/// Milliseconds of a step in which stages wait instead of computing.
double waited_ms(const PipelineCase& one) {
  uint64_t sum = 0;
  for (size_t part = 0; part < one.ms.size(); ++part)
    sum += (wait_passes + one.again[part]) * one.ms[part];
  return static_cast<double>(sum * one.job.virtual_ranks);
}

nlohmann::json pipeline_summary(const JobOptions& job, JobData& data) {
  RunOptions run;
  run.job = job;
  const auto result = run_in_process(run, data);
  if (result.status != 0)
    throw InputError("bench pipeline: " + result.line);
  return nlohmann::json::parse(result.summary);
}

/// Errors: InputError where stages train other weights than one device.
void verify_stages(const PipelineCase& one, const nlohmann::json& summary,
                   JobData& data) {
  auto alone = one.job;
  alone.model = layers_that_wait(std::vector<uint32_t>(one.ms.size(), 0));
  alone.strategy = Strategy::one_device;
  alone.cut.split_at.clear();
  alone.schedule = {};
  if (pipeline_summary(alone, data)["weights_sha256"]
      != summary["weights_sha256"])
    throw InputError("bench pipeline: stages have other weights than one "
                     "device: nothing is measured");
}

/// What the schedule says: stages' shares of a step, and what they hold.
PipelineTimes expected_times(const PipelineCase& one) {
  std::vector<PartCost> costs;
  for (size_t part = 0; part < one.ms.size(); ++part) {
    const uint64_t ms = one.ms[part];
    costs.push_back({ms, ms, ms, one.again[part] != 0 ? ms : 0});
  }
  return play_pipeline(pipeline_shape(one.job, one.job.virtual_ranks), costs);
}

nlohmann::json measure_pipeline(const PipelineCase& one, JobData& data) {
  const auto summary = pipeline_summary(one.job, data);
  verify_stages(one, summary, data);
  const double step_ms = summary["step_ms"]["p50"];
  const auto idle = 1 - waited_ms(one) / (one.job.stages * step_ms);
  const auto want = expected_times(one);
  const bool met = std::abs(idle - want.idle_share) <= pipeline_bar;
  const auto most = *std::ranges::max_element(want.activation_peak);
  std::printf("%-12s %6u %6u %10.1f %8.1f %% %8.1f %% %8.1f %8u %s\n",
              one.job.schedule.order.c_str(), one.job.stages,
              one.job.virtual_ranks, step_ms, idle * 100, want.idle_share * 100,
              (idle - want.idle_share) * 100, most, met ? "yes" : "no");
  std::fflush(stdout);
  return {{"name", "pipeline, " + one.job.schedule.order},
          {"members", one.job.stages},
          {"bytes", nullptr},
          {"ours_us", step_ms * 1e3},
          {"spread", nullptr},
          {"peer", nullptr},
          {"peer_version", nullptr},
          {"peer_us", nullptr},
          {"ratio", nullptr},
          {"limit_share", (1 - idle) / (1 - want.idle_share)},
          {"micro_batches", one.job.virtual_ranks},
          {"idle", idle},
          {"idle_of_schedule", want.idle_share},
          {"stash_peak", want.stash_peak},
          {"activation_peak", want.activation_peak},
          {"met", met}};
}

} // namespace

int run_bench_pipeline(const Settings& settings) {
  select_isa("auto");
  const auto& bench = settings.bench;
  std::vector<PipelineCase> cases;
  for (const auto& schedule : bench.schedules)
    for (auto stages : bench.stages)
      for (auto micro_batches : bench.micro_batches) {
        auto one = pipeline_case(bench, schedule, stages, micro_batches);
        if (!one.again.empty()) // interleaved: micro-batches go in groups
          cases.push_back(std::move(one));
      }
  std::printf(
    "pipelines of stages that wait instead of computing, with the roles and "
    "messages of a\nreal run in this process: a pass, forward or a half of "
    "backward, takes %s ms. idle:\nshare of a step, the median of %llu, in "
    "which the stages wait for each other; of\nschedule: the same by the "
    "order of passes alone, which for equal stages is\n(p - 1)/(m + p - 1), "
    "interleaved (p - 1)/(v m + p - 1), zero_bubble (p - 1)/(3 m + p - 1).\n"
    "Weights are those of one device. held: micro-batches whose activations a "
    "stage holds\nat once, at most; of each of its chunks.\n",
    listed_ms(bench.pass_ms).c_str(),
    static_cast<unsigned long long>(bench.pipeline_steps));
  std::printf("%-12s %6s %6s %10s %10s %10s %8s %8s %s\n", "schedule", "stages",
              "micro", "step ms", "idle", "schedule", "points", "held", "met");
  nlohmann::json rows = nlohmann::json::array();
  for (const auto& one : cases) {
    auto data = load_job_data(one.job);
    data.eval = nullptr;
    rows.push_back(measure_pipeline(one, data));
  }
  if (!settings.json.empty()) {
    const auto text = rows.dump(2) + "\n";
    write_atomically(settings.json, {std::as_bytes(std::span{text})});
  }
  return 0;
}

} // namespace troupe
