#include "actors/coordinator/checkpoint_keeper.hpp"

#include "actors/coordinator/saved_weights.hpp"
#include "actors/job/beginning.hpp"
#include "actors/job/checkpoint_rows.hpp"
#include "actors/job/job.hpp"
#include "actors/job/stage_mesh.hpp"
#include "actors/job/trained_model.hpp"
#include "actors/process/unix_time.hpp"
#include "actors/wire/version.hpp"
#include "kernels/base/seconds_since.hpp"
#include "kernels/base/steady_clock.hpp"
#include "kernels/files/file_error.hpp"
#include "kernels/files/output_trial.hpp"
#include "kernels/files/shown_text.hpp"
#include "kernels/graph/virtual_slices.hpp"
#include "monitoring/checkpoint_names.hpp"

#include <algorithm>
#include <chrono>
#include <ctime>
#include <filesystem>
#include <string_view>

namespace troupe {
namespace {

using Clock = SteadyClock;

constexpr const char* contents_fact = "data's contents";

std::string utc_now() {
  const auto now = std::time(nullptr);
  std::tm parts{};
  gmtime_r(&now, &parts);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text;
}

/// What each slice is the outcome of, and what all of them are.
void describe_slices(const Job& job, const Snapshot& snapshot,
                     CheckpointManifest& manifest) {
  std::optional<LeaseSet> everywhere;
  for (const auto& slice : job.plan.slices) {
    const auto& history = snapshot.slices[slice.id].history;
    CheckpointSlice mark;
    mark.variable = job.plan.variables[slice.variable].name;
    mark.offset = slice.offset;
    mark.count = slice.count;
    mark.partition = slice.partition;
    mark.updates = history.updates;
    mark.lease_floor = history.lease_floor;
    mark.leases_above = history.leases_above;
    const LeaseSet leases{history.lease_floor, history.leases_above};
    everywhere = everywhere ? intersection(*everywhere, leases) : leases;
    manifest.slices.push_back(std::move(mark));
  }
  const auto ranks = job.options.virtual_ranks;
  const auto& first = manifest.slices.front();
  manifest.step = everywhere->size() / ranks;
  manifest.whole =
    everywhere->size() % ranks == 0
    && std::ranges::all_of(manifest.slices, [&](const CheckpointSlice& x) {
         return x.updates == first.updates
                && x.lease_floor == everywhere->size()
                && x.leases_above.empty();
       });
}

/// Values that are in no snapshot as they are written.
using Joined = std::vector<std::vector<float>>;

TensorToWrite tensor_of(const Job& job, const Snapshot& snapshot,
                        uint32_t whole, uint32_t run, Joined& joined) {
  TensorToWrite out;
  out.name = tensor_name(job, whole, run);
  out.shape = whole_parameters(job.graph)[whole].shape;
  const auto pieces = pieces_of(job.graph, whole);
  const bool cut = pieces.size() > 1;
  if (cut)
    joined.emplace_back(elements(out.shape));
  for (const auto& slice : job.plan.slices) { // in order of their offsets
    if (std::ranges::count(pieces, slice.variable) == 0)
      continue;
    const auto& its = snapshot.slices[slice.id];
    const auto values = (run == 0 ? its.values : its.state[run - 1]).span();
    if (cut)
      put_piece(job.graph, slice.variable, slice.offset, values,
                joined.back().data());
    else
      out.parts.push_back(std::as_bytes(values));
  }
  if (cut)
    out.parts.push_back(std::as_bytes(std::span{joined.back()}));
  return out;
}

/// `joined` keeps what the file points to.
FileToWrite file_of(const Job& job, const Snapshot& snapshot,
                    const std::string& name, uint32_t first, uint32_t end,
                    Joined& joined) {
  FileToWrite out;
  out.name = name;
  const auto wholes = whole_parameters(job.graph).size();
  for (uint32_t run = first; run < end; ++run)
    for (uint32_t i = 0; i < wholes; ++i) {
      const auto variable = pieces_of(job.graph, i).front();
      if (job.plan.variables[variable].partitions == 0)
        out.tensors.push_back(tensor_of(job, snapshot, i, run, joined));
    }
  return out;
}

/// Errors: InputError where all are damaged and nobody said to begin anew.
void begin_without(const std::vector<DamagedCheckpoint>& damaged,
                   const CheckpointOptions& options) {
  if (!damaged.empty() && !options.fresh)
    throw InputError(
      "--checkpoint-dir " + options.dir + ": "
      + (damaged.size() == 1
           ? "its checkpoint is damaged"
           : "all " + std::to_string(damaged.size())
               + " of its checkpoints are damaged, the newest")
      + " (" + damaged.front().why
      + "); add --resume=fresh to begin with step 0 and keep what is there "
        "aside");
}

constexpr std::string_view between_classes = "; ";

std::string listed(const std::vector<std::string>& classes) {
  std::string out;
  for (const auto& one : classes)
    out += (out.empty() ? "" : std::string{between_classes}) + one;
  return out;
}

/// Of the steps that the job goes on from; none: it begins anew. A checkpoint
/// is anybody's: what is longer than such lists are is cut off.
std::vector<std::string> classes_of(const Job& job) {
  constexpr size_t longest = 2000;
  if (!job.beginning)
    return {};
  std::vector<std::string> out;
  for (const auto& [name, value] : job.beginning->manifest().settings)
    if (name == numeric_classes_setting)
      for (auto rest = std::string_view{value}.substr(0, longest);
           !rest.empty();) {
        const auto end = std::min(rest.find(between_classes), rest.size());
        if (end > 0)
          out.emplace_back(rest.substr(0, end));
        rest.remove_prefix(std::min(end + between_classes.size(), rest.size()));
      }
  if (out.empty())
    out.emplace_back(CheckpointKeeper::unknown_class);
  return out;
}

/// One in it would be of no use to whoever names the folder.
void refuse_checkpoint_itself(const std::string& named) {
  namespace fs = std::filesystem;
  std::error_code failure;
  auto dir = fs::path{named}.lexically_normal();
  if (!dir.has_filename()) // it ends with a slash
    dir = dir.parent_path();
  if (!fs::exists(dir / manifest_name, failure))
    return;
  auto folder = dir.has_parent_path() ? dir.parent_path() : fs::path{"."};
  if (dir.filename() == "." || dir.filename() == "..")
    folder = dir / "..";
  throw InputError("--checkpoint-dir " + named
                   + ": is a checkpoint itself; name "
                   + folder.lexically_normal().string());
}

} // namespace

CheckpointStart start_checkpoints(const CheckpointOptions& options,
                                  Starting starting) {
  CheckpointStart start;
  const bool restarted = starting == Starting::follows;
  if (options.dir.empty())
    return start;
  if (!restarted)
    refuse_checkpoint_itself(options.dir);
  try {
    start.lock = std::make_shared<CheckpointLock>(options.dir);
  } catch (const InputError& failure) {
    if (!restarted)
      throw;
    // The coordinator before has it, stopped: its term is over.
    start.notes.push_back(failure.what());
  }
  remove_leftovers(real_files(), options.dir);
  const auto dir = std::filesystem::absolute(options.dir).string();
  if (!options.resume && !restarted) {
    const auto found = find_checkpoints(dir);
    if (found.empty())
      return start;
    if (starting != Starting::again || found.front().step > 0)
      throw InputError("--checkpoint-dir " + options.dir
                       + ": holds checkpoints, the newest of step "
                       + std::to_string(found.front().step)
                       + "; add --resume to go on from it, remove the folder "
                         "to begin anew, or name another");
  }
  std::unique_ptr<CheckpointReader> newest;
  try {
    newest = open_newest(dir, start.damaged);
  } catch (const FileError& failure) {
    if (!restarted)
      throw;
    start.damaged.clear();
    start.notes.emplace_back(failure.what()); // the run has no need of it yet
    return start;
  }
  if (!newest && !restarted)
    begin_without(start.damaged, options);
  if (newest) {
    start.resume_from = newest->folder();
    start.notes.push_back("resumed from " + newest->folder() + ", step "
                          + std::to_string(newest->manifest().step)
                          + ", written "
                          + shown_text(newest->manifest().written_at));
  } else if (!restarted && options.initial.empty()) {
    start.notes.push_back(
      "--resume: no " + std::string{start.damaged.empty() ? "" : "whole "}
      + "checkpoint in " + options.dir + ", so the run begins with step 0");
  }
  return start;
}

void keep_damaged_aside(CheckpointStart& start) {
  std::vector<std::string> notes;
  for (const auto& one : start.damaged) {
    const auto kept = set_aside(real_files(), one.folder);
    notes.push_back(
      "passed over: " + one.why
      + (kept.empty() ? "; it stays where it is" : "; kept as " + kept));
  }
  start.damaged.clear();
  start.notes.insert(start.notes.begin(), notes.begin(), notes.end());
}

void try_checkpoints(const Job& job, const CheckpointOptions& options) {
  if (options.dir.empty())
    return;
  const auto runs = 1 + state_slots(job.options.rule.kind);
  uint64_t values = 0;
  for (const auto& variable : job.plan.variables)
    if (variable.partitions == 0) // of tables there are no rows yet
      values += elements(variable.shape);
  try_output_folder(options.dir, runs * values * sizeof(float));
}

void check_resumed(const Job& job, const std::string& fingerprint,
                   std::vector<std::string>& notes) {
  if (!job.beginning)
    return;
  const auto& manifest = job.beginning->manifest();
  for (const auto& [name, value] : manifest.facts)
    if (name == contents_fact && value != fingerprint)
      throw InputError(job.beginning->folder()
                       + ": cannot go on from it with this --data, whose "
                         "samples are others; give what it was trained with");
  // Other texts may have the same numbers.
  if (const auto other = other_meaning(job, job.beginning->folder());
      !other.empty())
    throw InputError(job.beginning->folder() + ": cannot go on from it: its "
                     + other + " --data; give what it was trained with");
  if (const auto changed = differences(settings_of(job), manifest.settings);
      !changed.empty())
    notes.push_back("note: goes on with " + changed);
}

void describe_checkpoint(const Job& job, const std::string& fingerprint,
                         CheckpointManifest& manifest) {
  manifest.written_at = utc_now();
  manifest.version = version;
  manifest.facts = facts_of(job);
  manifest.facts.emplace_back(contents_fact, fingerprint);
  manifest.settings = settings_of(job);
}

CheckpointKeeper::CheckpointKeeper(std::shared_ptr<const Job> job,
                                   CheckpointOptions options,
                                   std::string fingerprint,
                                   MetricRegistry& registry, FileSystem& files)
  : job_(std::move(job)),
    options_(std::move(options)),
    fingerprint_(std::move(fingerprint)),
    schedule_({options_.dir.empty() ? 0 : options_.every, job_->first_step()}),
    registry_(registry),
    folder_(options_.dir, options_.keep,
            job_->beginning ? job_->beginning->folder() : "", files) {
  if (enabled())
    for (const auto* result : {"written", "failed"}) // they read 0
      registry_.counter(metrics::checkpoints_total, {{"result", result}});
  numeric_classes_ = classes_of(*job_);
  if (job_->beginning)
    newest_ = CheckpointOutcome{job_->beginning->step(),
                                job_->beginning->manifest().whole,
                                job_->beginning->folder(),
                                0,
                                0,
                                ""};
}

std::string CheckpointKeeper::computes_in(const std::string& numeric_class) {
  const auto before = numeric_classes_;
  const auto known = std::ranges::find(numeric_classes_, numeric_class);
  const bool again = known != numeric_classes_.end();
  if (again)
    numeric_classes_.erase(known);
  numeric_classes_.push_back(numeric_class);
  if (before.empty() || before.back() == unknown_class
      || before.back() == numeric_class
      || (again && may_mix_classes(job_->options))
      || before != classes_of(*job_)) // this run mixes them
    return {};
  return "note: goes on in the numeric class " + numeric_class
         + " from steps that were computed in " + shown_text(listed(before))
         + ": the weights will not be those of a run in one class";
}

CheckpointOutcome
CheckpointKeeper::write(const Snapshot& snapshot, const Consistency& period,
                        const std::string& cause,
                        const std::vector<std::string>& numeric_classes) {
  const auto begin = Clock::now();
  CheckpointToWrite out;
  auto& manifest = out.manifest;
  describe_slices(*job_, snapshot, manifest);
  manifest.cause = cause;
  describe_checkpoint(*job_, fingerprint_, manifest);
  if (!numeric_classes.empty())
    manifest.settings.emplace_back(numeric_classes_setting,
                                   listed(numeric_classes));
  manifest.period = {period.async, period.step, period.updates};
  const auto runs = 1 + state_slots(job_->options.rule.kind);
  Joined joined;
  out.files.push_back(
    file_of(*job_, snapshot, "parameters.safetensors", 0, 1, joined));
  const auto metadata = weights_metadata(*job_, manifest.step);
  out.files.back().metadata = {metadata.begin(), metadata.end()};
  if (runs > 1)
    out.files.push_back(
      file_of(*job_, snapshot, "optimizer.safetensors", 1, runs, joined));
  std::vector<std::vector<int64_t>> ids;
  if (!job_->tables.empty())
    out.files.push_back(table_file(*job_, snapshot, ids));
  CheckpointOutcome outcome{manifest.step, manifest.whole, "", 0, 0, ""};
  try {
    outcome.folder = folder_.write(out);
    for (const auto& file : out.files)
      for (const auto& tensor : file.tensors)
        for (auto part : tensor.parts)
          outcome.bytes += part.size();
    folder_.remove_old();
  } catch (const std::exception& failure) { // training goes on
    outcome.failure = failure.what();
  }
  outcome.seconds = seconds_since(begin);
  return outcome;
}

std::string CheckpointKeeper::took(const CheckpointOutcome& outcome) {
  const auto count = [&](const char* result) {
    registry_.counter(metrics::checkpoints_total, {{"result", result}}).add();
  };
  if (!outcome.failure.empty()) {
    count("failed");
    if (std::exchange(last_failure_, outcome.failure) == outcome.failure)
      return {};
    return "no checkpoint of step " + std::to_string(outcome.step) + ": "
           + outcome.failure + "; "
           + (newest_ ? "step " + std::to_string(newest_->step) + " in "
                          + newest_->folder + " stays the newest"
                      : "there is none yet");
  }
  count("written");
  ++written_;
  newest_ = outcome;
  registry_.histogram(metrics::checkpoint_duration_seconds)
    .observe(outcome.seconds);
  registry_.gauge(metrics::checkpoint_bytes)
    .set(static_cast<double>(outcome.bytes));
  registry_.gauge(metrics::checkpoint_step)
    .set(static_cast<double>(outcome.step));
  registry_.gauge(metrics::checkpoint_timestamp_seconds).set(unix_seconds());
  if (std::exchange(last_failure_, {}).empty())
    return {};
  return "checkpoints are written again: step " + std::to_string(outcome.step)
         + " in " + outcome.folder;
}

} // namespace troupe
