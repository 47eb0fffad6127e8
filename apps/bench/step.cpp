#include "actors/compute/leaf_computer.hpp"
#include "actors/job/slice_update.hpp"
#include "actors/launch/job_runner.hpp"
#include "apps/settings/commands.hpp"
#include "kernels/base/error.hpp"
#include "kernels/base/seconds_since.hpp"
#include "kernels/engine/replica.hpp"
#include "kernels/files/atomic_file.hpp"
#include "kernels/files/safetensors.hpp"
#include "kernels/graph/virtual_slices.hpp"
#include "kernels/optimizer/optimizer.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <future>

namespace troupe {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int step_trials = 5;
constexpr uint64_t warm_up_steps = 10; // as samples_per_second leaves out

/// One device's training as a plain loop over the same kernels: no actor, no
/// message. Returns samples per second; checks that the bits are the actors'.
double plain_loop(const Job& job, const JobData& data, std::string& sha256) {
  auto shared = std::make_shared<const Job>(job);
  Executor executor{"plain", job.options.threads_per_device};
  LeafComputer computer{shared, data.train, executor, {}};
  const auto slots = state_slots(job.options.rule.kind);
  Buffer parameters{job.layout.total};
  Buffer state{std::max<size_t>(1, job.layout.total * slots)};
  parameters.fill(0);
  state.fill(0);
  for (uint32_t i = 0; i < job.graph.parameters.size(); ++i)
    initialize(job.graph, job.options.seed, i, 0,
               parameters.data() + job.layout.offsets[i],
               job.graph.parameters[i].size());
  std::promise<double> rate;
  auto answer = rate.get_future();
  executor.submit([&] {
    auto begin = Clock::now();
    uint64_t samples = 0;
    for (uint64_t step = 0; step < job.total_steps; ++step) {
      if (step == warm_up_steps) {
        begin = Clock::now();
        samples = 0;
      }
      auto gradient = computer.compute(step, {{0, job.options.virtual_ranks}},
                                       parameters.data());
      const auto* sum = gradient.nodes.front().sum->data();
      const auto count = job.sampling.step(step).count;
      whole_update(job, &executor, {step, step, count},
                   [&](const Slice& slice, UpdateArgs& args) {
                     const auto at = job.flat_offset(slice);
                     args.gradient_sum = sum + at;
                     args.in = args.out = parameters.data() + at;
                     args.state_in = args.state_out = state.data() + at;
                     args.state_stride = job.layout.total;
                   });
      samples += count;
    }
    rate.set_value(samples / seconds_since(begin));
  });
  const auto result = answer.get();
  std::vector<NamedTensor> tensors;
  for (const auto& whole : whole_parameters(job.graph))
    tensors.push_back(
      {whole.name, whole.shape, std::vector<float>(whole.size())});
  for (uint32_t i = 0; i < job.graph.parameters.size(); ++i)
    put_piece(job.graph, i, 0,
              {parameters.data() + job.layout.offsets[i],
               job.graph.parameters[i].size()},
              tensors[whole_of(job.graph, i)].values.data());
  sha256 = tensors_sha256(std::move(tensors));
  return result;
}

double with_actors(const Job& job, const JobData& data, std::string& sha256) {
  RunOptions run;
  run.job = job.options;
  auto result = run_in_process(run, data);
  if (result.status != 0)
    throw InputError(result.line);
  auto summary = nlohmann::json::parse(result.summary);
  sha256 = summary["weights_sha256"];
  return summary["samples_per_second"];
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

} // namespace

int run_bench_step(const Settings& settings) {
  auto options = settings.job;
  options.strategy = Strategy::one_device;
  options.synchronisation = Synchronisation::sync;
  options.devices.resize(1);
  select_isa(options.isa);
  auto data = load_job_data(options);
  data.eval = nullptr;
  const Job job{options, *data.train};
  if (job.total_steps <= warm_up_steps)
    throw InputError("bench step: " + std::to_string(job.total_steps)
                     + " steps are too few: add --steps 100 or more");
  std::vector<double> plain;
  std::vector<double> acted;
  std::vector<double> ratios;
  for (int trial = 0; trial < step_trials; ++trial) {
    std::string expected;
    std::string found;
    plain.push_back(plain_loop(job, data, expected));
    acted.push_back(with_actors(job, data, found));
    if (expected != found)
      throw InputError("bench step: the actors' weights differ from the plain "
                       "loop's: nothing is measured");
    ratios.push_back(plain.back() / acted.back());
  }
  const auto spread = (*std::max_element(ratios.begin(), ratios.end())
                       - *std::min_element(ratios.begin(), ratios.end()));
  const auto step_us = [&](double rate) {
    return options.global_batch / rate * 1e6;
  };
  std::printf(
    "step of %s, batch %u, V = %u, S = %u, %s, %u thread(s); %llu steps, "
    "median of %d alternating trials, weights equal\n",
    options.model.c_str(), options.global_batch, options.virtual_ranks,
    options.cut.virtual_slices, options.optimizer.c_str(),
    options.threads_per_device,
    static_cast<unsigned long long>(job.total_steps), step_trials);
  std::printf("%-14s %14s %12s\n", "", "samples/s", "us a step");
  std::printf("%-14s %14.0f %12.1f\n", "plain loop", median(plain),
              step_us(median(plain)));
  std::printf("%-14s %14.0f %12.1f\n", "with actors", median(acted),
              step_us(median(acted)));
  std::printf("overhead %.2f %% (spread of the ratio %.2f %%)\n",
              (median(ratios) - 1) * 100, spread * 100);
  if (!settings.json.empty()) {
    nlohmann::json rows = nlohmann::json::array();
    rows.push_back({{"name", "step"},
                    {"members", 1},
                    {"bytes", job.layout.total * sizeof(float)},
                    {"ours_us", step_us(median(acted))},
                    {"spread", spread},
                    {"peer", "plain loop over the same kernels"},
                    {"peer_version", nullptr},
                    {"peer_us", step_us(median(plain))},
                    {"ratio", 1 / median(ratios)},
                    {"limit_share", nullptr}});
    const auto text = rows.dump(2) + "\n";
    write_atomically(settings.json, {std::as_bytes(std::span{text})});
  }
  return 0;
}

} // namespace troupe
