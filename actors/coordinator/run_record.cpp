#include "actors/coordinator/run_record.hpp"

#include "actors/job/beginning.hpp"
#include "actors/job/first_period.hpp"
#include "actors/job/stage_mesh.hpp"
#include "actors/page/page_feed.hpp"
#include "actors/process/unix_time.hpp"
#include "actors/role/caf_metrics.hpp"
#include "actors/wire/version.hpp"
#include "kernels/engine/replica.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <utility>

namespace troupe {
namespace {

/// samples_per_second leaves out this many steps of warming up.
constexpr uint64_t warm_up_steps = 10;

double ms_between(RunRecord::Clock::time_point a,
                  RunRecord::Clock::time_point b) {
  return std::chrono::duration<double, std::milli>(b - a).count();
}

double percentile(std::vector<float> values, double share) {
  if (values.empty())
    return 0;
  const auto last = static_cast<double>(values.size() - 1);
  const auto at = values.begin() + std::lround(share * last);
  std::ranges::nth_element(values, at);
  return *at;
}

/// Null without sparse tables.
nlohmann::ordered_json tables_json(const Job& job, const TableSizes& sizes) {
  if (job.tables.empty())
    return nullptr;
  return {{"rows", sizes.rows}, {"bytes", sizes.bytes}};
}

/// Null without values.
nlohmann::ordered_json percentiles(const std::vector<float>& values) {
  if (values.empty())
    return nullptr;
  return {{"p50", percentile(values, 0.5)}, {"p99", percentile(values, 0.99)}};
}

} // namespace

RunRecord::RunRecord(std::shared_ptr<const Job> job) : job_(std::move(job)) {}

uint64_t RunRecord::samples_before(uint64_t version) const {
  uint64_t sum = 0;
  for (uint64_t step = 0; step < version; ++step)
    sum += job_->sampling.step(step).count;
  return sum;
}

void RunRecord::begin(Clock::time_point now) {
  samples_ = samples_before(job_->first_step());
  begin_ = now;
  measured_from_ = now;
  epoch_from_ = now;
  last_commit_ = now;
}

void RunRecord::committed(const CommitBook::Commit& commit,
                          Clock::time_point now) {
  samples_ += commit.samples;
  if (commit.step == job_->first_step() + warm_up_steps) {
    measured_from_ = last_commit_;
    measured_samples_ = 0;
  }
  measured_samples_ += commit.samples;
  epoch_committed_ += commit.samples;
  const auto ms = ms_between(last_commit_, now);
  step_ms_.push_back(static_cast<float>(ms));
  last_step_seconds_ = ms / 1000;
  last_commit_ = now;
  last_loss_ = commit.loss.value_or(unknown_loss);
  if (commit.loss) {
    epoch_loss_sum_ += *commit.loss * commit.samples;
    epoch_samples_ += commit.samples;
  }
  for (auto& recovery : recoveries_)
    if (!recovery.kind.empty() && !recovery.resumed)
      recovery.resumed = now;
}

void RunRecord::rolled_back(uint64_t version, uint64_t steps, uint64_t leases) {
  rollback_untold_ = true;
  rolled_back_ += steps;
  leases_rolled_back_ += leases;
  samples_ = samples_before(version);
  measured_from_ = Clock::now();
  measured_samples_ = 0;
  epoch_from_ = measured_from_;
  epoch_committed_ = 0;
  epoch_loss_sum_ = 0;
  epoch_samples_ = 0;
}

void RunRecord::lost(RoleId role, Clock::time_point now, uint64_t step,
                     StepPhase phase) {
  recoveries_.push_back({"", role, now, std::nullopt, step, phase});
  recoveries_.back().detected_ms = to_unix_ms(now);
}

std::vector<std::string> RunRecord::resumed(const std::set<RoleId>& present) {
  const bool rollback = std::exchange(rollback_untold_, false);
  const bool replanned = std::exchange(replan_untold_, false);
  const auto mode = switches_.empty() ? to_string(first_period(*job_))
                                      : switches_.back().mode;
  const bool leased = mode != "sync" && !job_->plan.dense_reduced;
  auto kind_of = [&](RoleId role) -> std::string {
    const bool back = present.contains(role);
    if (rollback)
      return "rollback";
    if (role.kind == RoleKind::coordinator)
      return "coordinator_restarted";
    if (replanned)
      return "layers_dealt_anew";
    if (role.kind == RoleKind::stage)
      return "stage_restored";
    if (role.kind == RoleKind::tensor)
      return "tensor_restored";
    if (role.kind == RoleKind::shard)
      return back ? "shard_restored" : "chain_repaired";
    if (back)
      return "worker_restarted";
    return leased ? "leases_returned" : "ranks_taken_over";
  };
  std::vector<std::string> kinds;
  for (auto& recovery : recoveries_)
    if (recovery.kind.empty())
      kinds.push_back(recovery.kind = kind_of(recovery.role));
  return kinds;
}

void RunRecord::exchanged(double seconds) {
  if (seconds > 0)
    exchange_ms_.push_back(static_cast<float>(seconds * 1e3));
}

void RunRecord::switched(uint64_t step, const std::string& mode,
                         Clock::time_point now) {
  switches_.push_back({step, mode, now});
}

void RunRecord::change_begins(const std::string& what, uint64_t step,
                              uint64_t epoch, Clock::time_point now) {
  changes_.push_back({what, step, epoch, now});
}

void RunRecord::change_ends(size_t slices, uint64_t bytes, uint64_t epoch,
                            Clock::time_point now) {
  if (changes_.empty() || changes_.back().end)
    return;
  auto& change = changes_.back();
  change.end = now;
  change.last_epoch = epoch;
  change.slices = slices;
  change.bytes = bytes;
}

void RunRecord::paused(uint64_t epoch, RoleId role, double seconds) {
  auto& known = pauses_[epoch];
  auto& ms = role.kind == RoleKind::worker ? known.push_ms : known.pull_ms;
  ms = std::max(ms, seconds * 1e3);
}

nlohmann::ordered_json RunRecord::changes_json() const {
  auto json = nlohmann::ordered_json::array();
  for (const auto& change : past_changes_)
    json.push_back(nlohmann::ordered_json::parse(change));
  for (const auto& change : changes_) {
    if (!change.end)
      continue;
    Pause longest;
    size_t epochs = 0;
    for (const auto& [epoch, pause] : pauses_)
      if (epoch >= change.first_epoch && epoch <= change.last_epoch) {
        ++epochs;
        longest.push_ms = std::max(longest.push_ms, pause.push_ms);
        longest.pull_ms = std::max(longest.pull_ms, pause.pull_ms);
      }
    json.push_back({{"change", change.what},
                    {"step", change.step},
                    {"ms", ms_between(change.begin, *change.end)},
                    {"slices", change.slices},
                    {"bytes", change.bytes},
                    {"epochs", epochs},
                    {"push_pause_ms", longest.push_ms},
                    {"pull_pause_ms", longest.pull_ms}});
  }
  return json;
}

void RunRecord::evaluated(const Evaluation& evaluation) {
  if (!evaluation_ || evaluation.version >= evaluation_->version)
    evaluation_ = evaluation;
}

void RunRecord::duplicates(RoleId role, uint64_t incarnation, uint64_t count) {
  auto& known = duplicates_[{role, incarnation}];
  known = std::max(known, count);
}

void RunRecord::peak_memory(RoleId role, uint64_t bytes) {
  auto& known = peak_memory_[role];
  known = std::max(known, bytes);
}

void RunRecord::sent(uint64_t bytes, uint64_t plain_bytes) {
  sent_bytes_ += bytes;
  plain_bytes_ += plain_bytes;
}

namespace {

double per_second(uint64_t samples, double ms) {
  return ms > 0 ? static_cast<double>(samples) * 1000.0 / ms : 0;
}

} // namespace

double RunRecord::samples_per_second() const {
  return per_second(measured_samples_,
                    ms_between(measured_from_, last_commit_));
}

RunRecord::DataEpoch RunRecord::take_data_epoch() {
  const DataEpoch out{
    epoch_samples_ > 0 ? epoch_loss_sum_ / static_cast<double>(epoch_samples_)
                       : unknown_loss,
    per_second(epoch_committed_, ms_between(epoch_from_, last_commit_))};
  epoch_from_ = last_commit_;
  epoch_committed_ = 0;
  epoch_loss_sum_ = 0;
  epoch_samples_ = 0;
  return out;
}

nlohmann::ordered_json
RunRecord::consistency_json(const Outcome& outcome) const {
  const auto& options = job_->options;
  nlohmann::ordered_json json;
  json["mode"] = to_string(first_period(options));
  json["switches"] = nlohmann::ordered_json::array();
  bool async = options.synchronisation == Synchronisation::async;
  for (const auto& x : switches_) {
    async = async || x.mode != "sync";
    json["switches"].push_back(
      {{"step", x.step}, {"mode", x.mode}, {"ms", ms_between(begin_, x.at)}});
  }
  if (async && job_->plan.dense_reduced) {
    json["rows_most_behind"] = max_behind_;
  } else if (async) {
    if (outcome.rest)
      json["leases"] = outcome.steps * options.virtual_ranks
                       + outcome.rest->leases;
    json["max_lead"] = outcome.max_lead;
    json["rejected_too_stale"] = refused_stale_;
    json["leases_rolled_back"] = leases_rolled_back_;
  }
  if (options.backup_workers > 0) {
    json["backup_workers"] = options.backup_workers;
    json["late_gradients_dropped"] = outcome.ranks_left_out;
  }
  return json;
}

nlohmann::ordered_json RunRecord::recoveries_json() const {
  auto list = nlohmann::ordered_json::array();
  for (const auto& recovery : recoveries_) {
    list.push_back(
      {{"kind", recovery.kind.empty() ? "unfinished" : recovery.kind},
       {"role", to_string(recovery.role)},
       {"detected_ms", ms_between(begin_, recovery.detected)},
       {"resumed_ms", recovery.resumed ? ms_between(begin_, *recovery.resumed)
                                       : ms_between(begin_, Clock::now())},
       {"step", recovery.step}});
    if (recovery.phase != StepPhase::none)
      list.back()["phase"] = to_string(recovery.phase);
  }
  return list;
}

nlohmann::ordered_json RunRecord::roles_json(const Outcome& outcome) const {
  std::map<RoleId, nlohmann::ordered_json> roles;
  for (const auto& [role, host] : outcome.hosts) {
    auto& facts = roles[role] = nlohmann::ordered_json::object();
    if (!host.empty())
      facts["host"] = host;
  }
  for (const auto& [role, bytes] : peak_memory_)
    roles[role]["peak_memory_bytes"] = bytes;
  auto json = nlohmann::ordered_json::object();
  for (auto& [role, facts] : roles)
    json[to_string(role)] = std::move(facts);
  return json;
}

nlohmann::ordered_json RunRecord::summary(const Outcome& outcome) const {
  nlohmann::ordered_json json;
  const auto& options = job_->options;
  json["version"] = version;
  json["model"] = options.model;
  json["strategy"] = to_string(options.strategy);
  json["plan"] = {{"synchronisation",
                   options.synchronisation == Synchronisation::async ? "async"
                                                                     : "sync"},
                  {"processes", options.processes},
                  {"shards", options.strategy == Strategy::parameter_server
                                 || has_served_stages(options)
                               ? options.shards
                               : 0},
                  {"slices", job_->plan.slices.size()},
                  {"global_batch", options.global_batch},
                  {"reduction", job_->plan.reduction}};
  if (has_stages(options))
    json["plan"]["schedule"] = options.schedule.order;
  json["consistency"] = consistency_json(outcome);
  json["seed"] = options.seed;
  json["virtual_ranks"] = options.virtual_ranks;
  json["workers"] = job_->plan.of_kind(RoleKind::worker).size();
  json["steps"] = outcome.steps;
  json["samples"] = samples_ + (outcome.rest ? outcome.rest->samples : 0);
  json["epochs"] = static_cast<double>(outcome.steps)
                   / static_cast<double>(job_->sampling.steps_per_epoch());
  json["stopped"] = nullptr;
  if (!outcome.stopped.empty())
    json["stopped"] = outcome.stopped;
  json["began"] = static_cast<double>(to_unix_ms(begin_)) / 1000;
  json["wall_seconds"] = ms_between(begin_, Clock::now()) / 1000;
  json["samples_per_second"] = samples_per_second();
  json["step_ms"] = percentiles(step_ms_);
  json["exchange_ms"] = percentiles(exchange_ms_);
  json["final_loss"] = last_loss_;
  json["eval"] = nullptr;
  if (evaluation_) {
    for (const auto& measure : evaluation_->measures)
      json["eval"][measure.name] = measure.value;
    json["eval"]["samples"] = evaluation_->samples;
  }
  json["weights_sha256"] = outcome.weights_sha256;
  json["state_sha256"] = outcome.state_sha256;
  json["tables"] = tables_json(*job_, outcome.tables);
  json["leaves_recomputed"] = outcome.leaves_recomputed;
  json["steps_rolled_back"] = rolled_back_;
  json["recoveries"] = recoveries_json();
  if (options.compress != "none") // what a worker had left out goes with it
    json["residuals_lost"] =
      std::ranges::count_if(recoveries_, [](const Recovery& x) {
        return x.role.kind == RoleKind::worker;
      });
  auto dropped = past_duplicates_;
  for (const auto& entry : duplicates_)
    dropped += entry.second;
  json["changes"] = changes_json();
  json["duplicates_dropped"] = dropped;
  json["all_reduce"] = {{"sent_bytes", sent_bytes_},
                        {"plain_bytes", plain_bytes_}};
  json["checkpoints"] = outcome.checkpoints;
  json["resumed_from"] = nullptr;
  if (const auto& from = job_->beginning)
    json["resumed_from"] = {{"checkpoint", from->folder()},
                            {"step", from->step()}};
  auto memory = peak_memory_bytes();
  for (const auto& entry : peak_memory_)
    memory += entry.second;
  json["peak_memory_bytes"] = memory;
  json["isa"] = outcome.isa;
  json["numeric_class"] = outcome.numeric_class;
  json["device"] = options.devices;
  json["libraries"] = library_versions();
  json["roles"] = roles_json(outcome);
  if (outcome.story != nullptr)
    outcome.story->tell_whole(to_unix_ms(begin_), json);
  return json;
}

} // namespace troupe
