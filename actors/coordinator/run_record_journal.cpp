#include "actors/coordinator/run_record.hpp"
#include "actors/journal/history.hpp"
#include "actors/process/unix_time.hpp"

#include <nlohmann/json.hpp>

// What of the record outlives its coordinator.

namespace troupe {

RecoveryRow Recovery::row() const {
  return {kind, role, phase, detected_ms, resumed ? to_unix_ms(*resumed) : 0,
          step};
}

RunCounts RunRecord::counts(const CommitBook& commits) const {
  RunCounts out;
  out.begin_ms = to_unix_ms(begin_);
  out.measured_from_ms = to_unix_ms(measured_from_);
  out.last_commit_ms = to_unix_ms(last_commit_);
  out.samples = samples_;
  out.measured_samples = measured_samples_;
  out.rolled_back = rolled_back_;
  out.leases_rolled_back = leases_rolled_back_;
  out.last_loss = last_loss_;
  out.epoch_loss_sum = epoch_loss_sum_;
  out.epoch_samples = epoch_samples_;
  out.refused_stale = refused_stale_;
  out.sent_bytes = sent_bytes_;
  out.plain_bytes = plain_bytes_;
  out.duplicates = past_duplicates_;
  for (const auto& entry : duplicates_)
    out.duplicates += entry.second;
  out.leaves_recomputed = commits.leaves_recomputed();
  out.ranks_left_out = commits.ranks_left_out();
  return out;
}

void RunRecord::resume(const JobHistory& past) {
  const auto& counts = past.counts;
  begin(Clock::now());
  if (counts.begin_ms > 0) {
    begin_ = from_unix_ms(counts.begin_ms);
    measured_from_ = from_unix_ms(counts.measured_from_ms);
    last_commit_ = from_unix_ms(counts.last_commit_ms);
    samples_ = counts.samples;
  }
  measured_samples_ = counts.measured_samples;
  rolled_back_ = counts.rolled_back;
  leases_rolled_back_ = counts.leases_rolled_back;
  last_loss_ = counts.last_loss;
  epoch_loss_sum_ = counts.epoch_loss_sum;
  epoch_samples_ = counts.epoch_samples;
  refused_stale_ = counts.refused_stale;
  sent_bytes_ = counts.sent_bytes;
  plain_bytes_ = counts.plain_bytes;
  past_duplicates_ = counts.duplicates;
  for (const auto& row : past.recoveries) {
    recoveries_.push_back({row.kind, row.role, from_unix_ms(row.detected_ms),
                           std::nullopt, row.step, row.phase, row.detected_ms});
    if (row.resumed_ms > 0) {
      recoveries_.back().resumed = from_unix_ms(row.resumed_ms);
      recoveries_.back().written = true;
    }
  }
  for (const auto& x : past.switches)
    switches_.push_back({x.step, x.mode, from_unix_ms(x.unix_ms)});
  past_changes_ = past.changes;
  replan_untold_ = past.replanned;
  if (past.evaluation.empty())
    return;
  const auto json = nlohmann::json::parse(past.evaluation);
  Evaluation read;
  read.version = json.at("version");
  read.samples = json.at("samples");
  for (const auto& measure : json.at("measures"))
    read.measures.push_back({measure.at("name"), measure.at("value")});
  evaluation_ = read;
}

std::vector<RecoveryRow> RunRecord::take_recovered() {
  std::vector<RecoveryRow> out;
  for (auto& recovery : recoveries_)
    if (recovery.resumed && !recovery.written) {
      recovery.written = true;
      out.push_back(recovery.row());
    }
  return out;
}

std::string RunRecord::newest_change() const {
  const auto json = changes_json();
  return json.size() > past_changes_.size() ? json.back().dump()
                                            : std::string{};
}

} // namespace troupe
