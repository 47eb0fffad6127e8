#include "actors/process/stop_status.hpp"
#include "apps/chaos/endings.hpp"
#include "apps/chaos/fault_proxy.hpp"
#include "apps/chaos/host_chaos.hpp"
#include "apps/chaos/plan_file.hpp"
#include "apps/chaos/run.hpp"
#include "apps/process/launched_job.hpp"
#include "apps/process/run_folder.hpp"
#include "apps/settings/commands.hpp"
#include "apps/terminal/interrupt.hpp"
#include "kernels/base/error.hpp"
#include "kernels/files/atomic_file.hpp"
#include "kernels/files/safetensors.hpp"

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <memory>
#include <optional>
#include <set>
#include <span>

namespace troupe {
namespace {

constexpr std::chrono::seconds end_deadline{3600};

/// What a run of the job leaves.
struct Files {
  std::string weights;
  std::string summary;
  std::string journal;
};

/// The job's arguments with what the verdict is made from, and what some faults
/// need.
std::vector<std::string>
job_arguments(const Settings& settings, const Files& files,
              const std::vector<std::string>& more = {}) {
  auto out = settings.chaos.job;
  out.insert(out.end(), more.begin(), more.end());
  out.emplace_back("--allow-faults");
  out.insert(out.end(), {"--summary", files.summary, "--save", files.weights});
  if (!files.journal.empty())
    out.insert(out.end(), {"--journal", files.journal});
  return out;
}

/// Gives a flag another value.
void replace(std::vector<std::string>& arguments, const std::string& flag,
             const std::string& value) {
  for (auto at = arguments.begin(); at != arguments.end();)
    if (*at == flag && at + 1 != arguments.end())
      at = arguments.erase(at, at + 2);
    else if (at->starts_with(flag + '='))
      at = arguments.erase(at);
    else
      ++at;
  arguments.insert(arguments.end(), {flag, value});
}

/// The same job, whose checkpoints go elsewhere: that folder has some by now.
/// `steps`: that a job which was ended has made.
std::vector<std::string>
undisturbed(std::vector<std::string> arguments, const Settings& job,
            const std::string& checkpoints, std::optional<uint64_t> steps) {
  if (!job.checkpoints.dir.empty())
    replace(arguments, "--checkpoint-dir", checkpoints);
  if (steps)
    replace(arguments, "--steps", std::to_string(*steps));
  return arguments;
}

nlohmann::ordered_json read_json(const std::string& path) {
  std::ifstream file{path};
  return nlohmann::ordered_json::parse(file);
}

/// With `--model count:…` each parameter is the number of its updates.
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
  evidence.min_count = evidence.expected_count;
  evidence.largest_count = evidence.expected_count;
  for (const auto& tensor : read_safetensors(weights).tensors)
    for (double value : tensor.values) {
      evidence.min_count = std::min(evidence.min_count, value);
      evidence.largest_count = std::max(evidence.largest_count, value);
    }
}

/// Strikes from a file, or drawn from the seed as long as faults are missing.
class Strikes {
public:
  Strikes(const ChaosOptions& options, const Plan& plan)
    : drawn_(plan, options.seed, options.kinds),
      faults_(options.faults),
      kinds_(options.kinds.begin(), options.kinds.end()) {
    if (options.plan.empty())
      return;
    read_ = read_chaos_plan(options.plan, plan);
    faults_ = 0;
    kinds_.clear();
    for (const auto& strike : *read_) {
      faults_ += strike.faults();
      for (const auto& wish : strike.wishes)
        kinds_.insert(wish.kind);
    }
  }

  uint64_t faults() const { return faults_; }
  const std::set<ChaosKind>& kinds() const { return kinds_; }
  std::optional<ChaosStrike> next(uint64_t left) {
    if (!read_)
      return drawn_.next(left);
    if (at_ == read_->size())
      return std::nullopt;
    return (*read_)[at_++];
  }
  bool redirect(ChaosStrike& strike) const { return drawn_.redirect(strike); }

private:
  ChaosPlan drawn_;
  std::optional<std::vector<ChaosStrike>> read_;
  size_t at_ = 0;
  uint64_t faults_;
  std::set<ChaosKind> kinds_;
};

/// A proxy, if there are faults that it takes one for.
std::unique_ptr<FaultProxy> proxy_for(const Strikes& strikes,
                                      const Settings& job, const Plan& plan,
                                      uint64_t seed) {
  if (std::ranges::none_of(strikes.kinds(), is_of_proxy))
    return nullptr;
  if (job.job.link == "shm"
      && std::ranges::any_of(strikes.kinds(), is_of_links))
    throw UsageError("links in shared memory do not pass a proxy: leave out "
                     "the job's --link shm");
  const bool control = strikes.kinds().contains(ChaosKind::slow_control);
  if (control && job.standby)
    throw UsageError("slow-control stands before one coordinator: leave out "
                     "the job's --standby");
  std::vector<std::string> roles;
  for (const auto& role : plan.roles)
    if (control && is_member_kind(role.role.kind))
      roles.push_back(to_string(role.role));
  return std::make_unique<FaultProxy>(seed, roles);
}

/// Flags of the job, and what its roles find in their environment.
std::vector<std::string> pass_through(const FaultProxy* proxy,
                                      const Strikes& strikes,
                                      const Settings& job) {
  if (!proxy)
    return {};
  ::setenv(control_proxy_variable, proxy->control_addresses().c_str(), 1);
  if (std::ranges::none_of(strikes.kinds(), is_of_links))
    return {};
  ::setenv(link_proxy_variable, proxy->address().c_str(), 1);
  return job.job.link == "tcp" ? std::vector<std::string>{}
                               : std::vector<std::string>{"--link", "tcp"};
}

/// A full disk is one that checkpoints are written to; a job that is ended goes
/// on from one.
void check_kinds(const Strikes& strikes, const Settings& job) {
  if (job.checkpoints.dir.empty()
      && std::ranges::any_of(strikes.kinds(), ends_job))
    throw UsageError("signal-all, unreadable: the job would have nothing to go "
                     "on from; give it --checkpoint-dir DIR");
  if (job.standby && strikes.kinds().contains(ChaosKind::slow_disk))
    throw UsageError("slow-disk is that of one coordinator: leave out the "
                     "job's --standby");
  if (!strikes.kinds().contains(ChaosKind::full_disk))
    return;
  if (job.checkpoints.dir.empty() || job.checkpoints.every == 0)
    throw UsageError("full-disk: the job writes no checkpoints on its way; "
                     "give it --checkpoint-dir DIR --checkpoint-every N");
  if (job.standby)
    throw UsageError("full-disk is that of one coordinator: leave out the "
                     "job's --standby");
}

void write(const std::string& path, const std::string& text) {
  if (!path.empty())
    write_atomically(path, {std::as_bytes(std::span{text})});
}

/// Of one job after the other, as if they were one.
void add_summary(nlohmann::ordered_json summary, ChaosEvidence& evidence) {
  if (!evidence.endings.empty()) {
    judge_resumption(summary, evidence.endings.back());
    for (const char* count :
         {"steps_rolled_back", "leaves_recomputed", "duplicates_dropped"})
      summary[count] = summary.at(count).get<uint64_t>()
                       + evidence.summary.at(count).get<uint64_t>();
    auto recoveries = evidence.summary.at("recoveries");
    for (const auto& recovery : summary.at("recoveries"))
      recoveries.push_back(recovery);
    summary["recoveries"] = std::move(recoveries);
  }
  evidence.summary = std::move(summary);
}

/// The job must not begin as long as its checkpoints cannot be read, by turns
/// the newest one, the folder and all, nor do anything to them.
void start_in_vain(const Settings& settings, const Files& files,
                   const std::vector<std::string>& more,
                   const ChaosFault& fault, const std::string& folder,
                   std::vector<ChaosEnding>& endings) {
  using Clock = std::chrono::steady_clock;
  auto& ending = endings.back();
  const auto turn = std::ranges::count(endings, fault.kind, &ChaosEnding::kind)
                    - 1;
  const auto which = static_cast<UnreadableCheckpoints::Which>(turn % 3);
  const auto before = list_checkpoints(folder);
  const auto until = Clock::now() + std::chrono::milliseconds{fault.amount};
  {
    const UnreadableCheckpoints unreadable{folder, which};
    do {
      auto vain = files;
      vain.journal += ".vain-" + std::to_string(ending.refused);
      LaunchedJob run{job_arguments(settings, vain, more)};
      const auto exit = run.wait(end_deadline);
      const auto line = exit.last_lines.empty() ? "" : exit.last_lines.back();
      if (exit.status != 1
          || line.find(UnreadableCheckpoints::reason()) == std::string::npos)
        ending.failures.push_back("a job whose checkpoints cannot be read "
                                  "ended with "
                                  + exit.describe() + ": " + line);
      ++ending.refused;
    } while (Clock::now() < until);
  }
  if (list_checkpoints(folder) != before)
    ending.failures.push_back(folder
                              + ": has other files than before its "
                                "checkpoints could not be read");
}

/// What takes a host's memory along must leave a copy on another one.
void check_hosts(const Strikes& strikes, const Settings& job,
                 const Plan& plan) {
  if (!std::ranges::all_of(strikes.kinds(), is_of_hosts))
    throw UsageError("host-kill, host-cut and host-slow strike a job whose "
                     "roles are started one by one: leave out the other kinds");
  if (has_model_part(plan.computing()) || plan.paired)
    throw UsageError("host-kill, host-cut and host-slow place workers and "
                     "shards as yet, and --strategy "
                     + to_string(plan.strategy)
                     + (plan.paired   ? " has them in pairs"
                        : plan.served ? " has no workers"
                                      : " has neither")
                     + ": leave them out");
  if (job.job.data_access.readers > 0)
    throw UsageError("host-kill, host-cut and host-slow place workers and "
                     "shards as yet: leave out the job's --readers");
  if (job.standby)
    throw UsageError("host-kill, host-cut and host-slow start one coordinator: "
                     "leave out the job's --standby");
  const bool copied = plan.owner_kind != RoleKind::shard || plan.chain > 1;
  if (strikes.kinds().contains(ChaosKind::host_kill) && !copied)
    throw UsageError("host-kill takes a host's memory along: give the job "
                     "--chain 2");
}

/// The flags of a coordinator that is started by hand.
std::vector<std::string> coordinator_flags(std::vector<std::string> arguments) {
  arguments.erase(arguments.begin()); // train
  std::erase(arguments, "--processes");
  std::erase(arguments, "--allow-faults"); // the network has them
  return arguments;
}

void run_on_hosts(const Settings& settings, const Settings& job,
                  const Plan& plan, const Files& files, Strikes& strikes,
                  ChaosEvidence& evidence) {
  check_hosts(strikes, job, plan);
  HostNetwork network{settings.chaos.hosts};
  HostJob run{network, plan, coordinator_flags(job_arguments(settings, files)),
              files.journal + ".certificates"};
  HostChaos chaos{network, run, plan, files.journal};
  chaos.strike([&](uint64_t left) { return strikes.next(left); },
               evidence.asked, settings.chaos.steps_after);
  run.finish(end_deadline);
  chaos.tell(evidence);
  write(settings.chaos.write_plan, to_toml(chaos.done(), settings.chaos.seed));
  evidence.summary = read_json(files.summary);
  count_updates(job, files.weights, evidence);
}

ChaosEvidence run_under_faults(const Settings& settings, const Settings& job,
                               const Job& planned, const Files& files) {
  const auto& plan = planned.plan;
  Strikes strikes{settings.chaos, plan};
  ChaosEvidence evidence;
  evidence.asked = strikes.faults();
  if (std::ranges::any_of(strikes.kinds(), is_of_hosts)) {
    run_on_hosts(settings, job, plan, files, strikes, evidence);
    return evidence;
  }
  check_kinds(strikes, job);
  const auto proxy = proxy_for(strikes, job, plan, settings.chaos.seed);
  auto more = pass_through(proxy.get(), strikes, job);
  std::vector<ChaosStrike> done;
  for (auto life = files;;) {
    LaunchedJob run{job_arguments(settings, life, more)};
    ChaosRun chaos{run, plan, life.journal, proxy.get()};
    try {
      chaos.strike(
        [&](uint64_t left) { return strikes.next(left); },
        [&](ChaosStrike& strike) { return strikes.redirect(strike); },
        evidence.asked - evidence.faults.size(), settings.chaos.steps_after);
    } catch (const InputError& unreachable) {
      say(unreachable.what()); // over already: the verdict counts no faults
    }
    const auto& ending = chaos.ended_by();
    // One that is just over when it is told to end has status 0.
    const bool by_itself = (!ending && !chaos.stopped())
                           || run.wait(end_deadline).status == 0;
    run.finish(end_deadline, by_itself ? 0 : stop_status("terminated"));
    chaos.tell(evidence, planned);
    done.insert(done.end(), chaos.done().begin(), chaos.done().end());
    add_summary(read_json(life.summary), evidence);
    if (!ending)
      break;
    evidence.endings.push_back(judge_ending(
      ending->kind, evidence.summary, {life.weights, job.checkpoints.dir}));
    if (evidence.endings.size() == 1)
      more.emplace_back("--resume");
    life.journal = files.journal + '.'
                   + std::to_string(evidence.endings.size());
    if (ending->kind == ChaosKind::unreadable)
      start_in_vain(settings, life, more, *ending, job.checkpoints.dir,
                    evidence.endings);
  }
  if (job.job.synchronisation == Synchronisation::async)
    evidence.leaves_of_the_lost.reset(); // leases are
  count_updates(job, files.weights, evidence);
  write(settings.chaos.write_plan, to_toml(done, settings.chaos.seed));
  return evidence;
}

/// Errors: UsageError for a job that this is not made for.
void check_job(const ChaosOptions& chaos, const Settings& job) {
  if (!job.job.processes)
    throw UsageError("troupe chaos kills processes: give the job --processes");
  if (job.quiet)
    throw UsageError(
      "troupe chaos reads where the coordinator is from what the "
      "job prints: leave out its --quiet");
  if (job.checkpoints.resume)
    throw UsageError("troupe chaos compares a job with itself from its "
                     "beginning: leave out its --resume");
  if (!job.journal.empty())
    throw UsageError("troupe chaos keeps the job's journal itself: leave out "
                     "its --journal");
  // A job without steps in common ends with the leases that are under way.
  if (chaos.steps_after && job.job.synchronisation != Synchronisation::sync)
    throw UsageError(
      "--steps-after ends a job between two steps: leave it out, "
      "or the job's --async or --staleness");
  const auto schedule = job.job.lr.schedule;
  if (chaos.steps_after
      && (schedule == LrSchedule::step || schedule == LrSchedule::cosine))
    throw UsageError("--steps-after ends the job before its --steps, which its "
                     "--lr-schedule depends on: leave one of them out");
}

void show(const nlohmann::ordered_json& verdict) {
  say("faults: " + verdict.at("faults").dump());
  say("deaths: " + verdict.at("by_phase").dump());
  say("next commit after a loss, ms: " + verdict.at("next_commit_ms").dump());
  for (const auto& failure : verdict.at("failures"))
    say("failed: " + failure.get<std::string>());
  say("verdict: " + verdict.at("verdict").get<std::string>());
}

} // namespace

int run_chaos(const Settings& settings) {
  const auto job = parse_settings(settings.chaos.job,
                                  surroundings_of_process());
  check_job(settings.chaos, job);
  const Job planned{job.job, job.job.global_batch};
  const auto& plan = planned.plan;
  RunFolder folder;
  Interrupt interrupt{false, "before the last fault: there is no verdict"};
  interrupt.removes(folder.path());
  const Files files{folder.file("weights.safetensors"),
                    folder.file("summary.json"), folder.file("journal.db")};
  auto evidence = run_under_faults(settings, job, planned, files);
  if (planned.goes_in_lock_step() && plan.owner_kind == RoleKind::shard
      && !plan.served)
    evidence.leaves_of_the_lost.reset(); // all workers compute theirs again
  if (job.job.synchronisation == Synchronisation::sync
      && job.job.reduction == "reproducible") {
    const Files others{files.weights, folder.file("undisturbed.json"), {}};
    ::unsetenv(link_proxy_variable);
    ::unsetenv(control_proxy_variable);
    std::optional<uint64_t> steps;
    if (settings.chaos.steps_after)
      steps = evidence.summary.at("steps").get<uint64_t>();
    LaunchedJob run{undisturbed(job_arguments(settings, others), job,
                                folder.file("checkpoints"), steps)};
    run.finish(end_deadline);
    evidence.undisturbed = read_json(others.summary);
  }
  const auto verdict = judge(evidence);
  write(settings.json, verdict.dump(2) + '\n');
  show(verdict);
  return verdict.at("failures").empty() ? 0 : 1;
}

} // namespace troupe
