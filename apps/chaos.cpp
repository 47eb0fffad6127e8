#include "apps/chaos_job.hpp"
#include "apps/chaos_plan.hpp"
#include "apps/chaos_verdict.hpp"
#include "apps/commands.hpp"
#include "apps/run_folder.hpp"
#include "kernels/error.hpp"
#include "kernels/files/atomic_file.hpp"
#include "kernels/files/safetensors.hpp"

#include <algorithm>
#include <cstdio>
#include <fstream>

namespace troupe {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr seconds start_deadline{60};
constexpr seconds step_deadline{120};
constexpr milliseconds phase_deadline{5'000};
constexpr seconds end_deadline{3600};

/// The job's arguments with what the verdict is made from.
std::vector<std::string> job_arguments(const Settings& settings,
                                       const std::string& summary,
                                       const std::string& weights) {
  auto out = settings.chaos.job;
  out.insert(out.end(), {"--summary", summary, "--save", weights});
  return out;
}

nlohmann::ordered_json read_json(const std::string& path) {
  std::ifstream file{path};
  return nlohmann::ordered_json::parse(file);
}

void say(const std::string& line) {
  std::printf("%s\n", line.c_str());
  std::fflush(stdout);
}

/// Sends one strike; where a phase belongs to another replica, there.
std::vector<FaultAnswer> send(FaultInjector& injector, const ChaosPlan& plan,
                              ChaosPlan::Strike& strike, uint32_t chain) {
  using enum FaultAnswer::Kind;
  auto answers = injector.inject(strike.wishes, phase_deadline);
  for (uint32_t i = 1; i < chain && answers.front().kind == refused
                       && strike.wishes.size() == 1 && plan.redirect(strike);
       ++i)
    answers = injector.inject(strike.wishes, phase_deadline);
  return answers;
}

void strike_on(const Settings& settings, const Plan& plan,
               const ChaosJob::Address& address) {
  FaultInjector injector{address.coordinator, address.certificates};
  ChaosPlan chaos{plan, settings.chaos.seed};
  uint64_t deaths = 0;
  uint64_t step = injector.wait_for_step(1, step_deadline);
  while (deaths < settings.chaos.faults) {
    auto strike = chaos.next(settings.chaos.faults - deaths);
    const auto goal = step + strike.steps_before;
    step = injector.wait_for_step(goal, step_deadline);
    if (step < goal)
      break;
    const auto answers = send(injector, chaos, strike, plan.chain);
    for (size_t i = 0; i < answers.size(); ++i) {
      const auto& answer = answers[i];
      if (answer.kind == FaultAnswer::Kind::done)
        deaths += strike.wishes[i].phases.size();
      say("step " + std::to_string(step) + ": " + answer.line);
      if (answer.kind == FaultAnswer::Kind::over)
        return;
    }
  }
}

/// Of `--model count:…`: each parameter is the number of its updates.
void count_updates(const Settings& job, const std::string& weights,
                   ChaosEvidence& evidence) {
  if (!job.job.model.starts_with("count:"))
    return;
  evidence.counts = true;
  const auto updates = job.job.synchronisation == Synchronisation::async
                         ? job.job.virtual_ranks
                         : 1;
  evidence.expected_count = evidence.summary.at("steps").get<double>()
                            * updates;
  evidence.least_count = evidence.expected_count;
  evidence.largest_count = evidence.expected_count;
  for (const auto& tensor : read_safetensors(weights).tensors)
    for (double value : tensor.values) {
      evidence.least_count = std::min(evidence.least_count, value);
      evidence.largest_count = std::max(evidence.largest_count, value);
    }
}

} // namespace

int run_chaos(const Settings& settings) {
  const auto job = parse_settings(settings.chaos.job,
                                  surroundings_of_process());
  if (!job.job.processes)
    throw UsageError("troupe chaos kills processes: give the job --processes");
  if (job.quiet)
    throw UsageError(
      "troupe chaos reads where the coordinator is from what the "
      "job prints: leave out its --quiet");
  const Plan plan = Job{job.job, job.job.global_batch}.plan;
  RunFolder folder;
  const auto weights = folder.file("weights.safetensors");
  const auto summary = folder.file("summary.json");
  ChaosEvidence evidence;
  evidence.asked = settings.chaos.faults;
  {
    ChaosJob run{job_arguments(settings, summary, weights)};
    const auto address = run.address(start_deadline);
    try {
      strike_on(settings, plan, address);
    } catch (const InputError& unreachable) {
      say(unreachable.what()); // over already: the verdict counts no deaths
    }
    run.finish(end_deadline);
    evidence.summary = read_json(summary);
    count_updates(job, weights, evidence);
  }
  if (job.job.synchronisation == Synchronisation::sync
      && job.job.reduction == "reproducible") {
    const auto other = folder.file("undisturbed.json");
    ChaosJob run{job_arguments(settings, other, weights)};
    run.finish(end_deadline);
    evidence.undisturbed = read_json(other);
  }
  const auto verdict = judge(evidence);
  const auto text = verdict.dump(2) + '\n';
  if (!settings.json.empty())
    write_atomically(settings.json, {std::as_bytes(std::span{text})});
  say("deaths: " + verdict.at("by_phase").dump());
  say("next commit after a loss, ms: " + verdict.at("next_commit_ms").dump());
  for (const auto& failure : verdict.at("failures"))
    say("failed: " + failure.get<std::string>());
  say("verdict: " + verdict.at("verdict").get<std::string>());
  return verdict.at("failures").empty() ? 0 : 1;
}

} // namespace troupe
