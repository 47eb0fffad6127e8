#include "actors/job/beginning.hpp"

#include "actors/job/checkpoint_rows.hpp"
#include "actors/job/first_period.hpp"
#include "actors/job/job.hpp"
#include "actors/job/shard_tables.hpp"
#include "actors/job/stage_mesh.hpp"
#include "kernels/base/error.hpp"
#include "kernels/files/safetensors.hpp"
#include "kernels/files/shown_text.hpp"
#include "kernels/graph/virtual_slices.hpp"

#include <algorithm>
#include <charconv>

namespace troupe {
namespace {

constexpr const char* virtual_slices_fact = "virtual-slices";

template <class Real>
std::string print(Real value) { // the shortest text of that value
  char text[32];
  const auto end = std::to_chars(text, text + sizeof text, value).ptr;
  return {text, end};
}

std::string name_of(LrSchedule schedule) {
  switch (schedule) {
    case LrSchedule::step:
      return "step";
    case LrSchedule::cosine:
      return "cosine";
    case LrSchedule::inverse_sqrt:
      return "inverse_sqrt";
    default:
      return "constant";
  }
}

/// Model files are long.
std::string shown(const std::string& text) {
  constexpr size_t most = 100;
  return text.size() <= most
           ? text
           : "sha256:" + sha256(std::as_bytes(std::span{text}));
}

/// Whether all of it is the outcome of the same updates.
CheckpointSlice common_mark(const CheckpointReader& reader) {
  const auto& manifest = reader.manifest();
  if (manifest.slices.empty() || !manifest.whole)
    throw InputError(reader.folder()
                     + ": was taken while slices had had different pushes, and "
                       "cut otherwise; resume with the --partitioner and "
                       "--tables it was taken with, and --async");
  return manifest.slices.front();
}

/// Whether the rows of a table can be had as the job keeps them.
void check_table(const Job& job, const Slice& slice,
                 const CheckpointReader& reader) {
  const auto& table = job.plan.variables[slice.variable].name;
  if (table_parts(reader, table) == 0)
    throw InputError(reader.folder() + ": holds table " + table
                     + " whole, not by rows; add --tables dense");
  if (stored_width(reader, table) != row_copy_width(job, slice))
    throw InputError(reader.folder()
                     + ": rows were counted in one of the two runs only; give "
                       "--table-bytes and --table-idle-steps as then");
}

/// Asynchronously a step is V updates of a layer on shards, but one of a layer
/// that workers all-reduce.
void check_layer(const Job& job, const CheckpointSlice& mark,
                 const CheckpointManifest& manifest,
                 const std::string& folder) {
  const uint64_t ranks = job.options.virtual_ranks;
  const auto& period = manifest.period;
  if (!period.async || manifest.whole || ranks == 1)
    return;
  const auto leases = mark.lease_floor + mark.leases_above.size();
  const bool leased = mark.updates - period.updates
                      == leases - period.step * ranks;
  if (leased == job.plan.dense_reduced)
    throw InputError(folder + ": was taken asynchronously with --dense "
                     + (leased ? "shards" : "all_reduced") + "; give that");
}

/// What a slice of a job is the outcome of has to fit what the whole job is:
/// roles take one count off another, and whoever goes on from here counts from
/// one to the other.
void check_mark(const Job& job, const CheckpointSlice& mark, bool all_reduced,
                const CheckpointManifest& manifest, const std::string& folder) {
  // Some of the leases that were out at the time had been applied.
  constexpr uint64_t max_ahead = uint64_t{1} << 20;
  constexpr uint64_t max_steps = uint64_t{1} << 52;
  const uint64_t ranks = job.options.virtual_ranks;
  const auto& period = manifest.period;
  const LeaseSet leases{mark.lease_floor, mark.leases_above};
  const auto least = manifest.step * ranks;
  bool fits =
    manifest.step <= max_steps / ranks && period.step <= manifest.step
    && period.updates <= max_steps && period.updates >= period.step
    && mark.updates <= max_steps && leases.floor() <= least + max_ahead
    && (leases.above().empty() || leases.above().back() < least + max_ahead)
    && leases.size() >= least;
  if (fits && all_reduced) { // one update a step, whatever the period
    fits = mark.updates >= manifest.step && mark.updates <= least + max_ahead;
  } else if (fits && period.async) { // one a lease
    fits = mark.updates >= period.updates
           && mark.updates - period.updates
                == leases.size() - period.step * ranks;
  } else if (fits) {
    fits = mark.updates - period.updates == manifest.step - period.step;
  }
  if (!fits)
    throw InputError(folder + ": slice " + std::to_string(mark.offset) + " of "
                     + mark.variable
                     + " does not fit the checkpoint's step; the checkpoint is "
                       "damaged: use another");
}

} // namespace

std::string tensor_name(const Job& job, uint32_t whole, uint32_t run) {
  const auto& name = whole_parameters(job.graph)[whole].name;
  return run == 0 ? name
                  : state_name(job.options.rule.kind, run - 1) + '/' + name;
}

namespace {

constexpr const char* shuffle_fact = "data's shuffle";

std::string shuffle_of(const SampleBlocks& blocks) {
  return blocks.size == 0 ? "all"
                          : "blocks of " + std::to_string(blocks.size) + ", "
                              + std::to_string(blocks.window) + " at a time";
}

/// Of checkpoints that were taken before there was such a thing.
void add_fact(CheckpointFacts& facts, const char* name, const char* value) {
  if (std::ranges::find(facts, name, &CheckpointFacts::value_type::first)
      == facts.end())
    facts.emplace_back(name, value);
}

} // namespace

CheckpointFacts facts_of(const Job& job) {
  const auto& options = job.options;
  std::string shapes;
  for (const auto& parameter : whole_parameters(job.graph))
    shapes += parameter.name + to_string(parameter.shape) + '\n';
  CheckpointFacts facts{
    {"model", shown(job.graph.text)},
    {"model's parameters",
     sha256(std::as_bytes(std::span{shapes})).substr(0, 16)},
    {"seed", std::to_string(options.seed)},
    {"virtual-ranks", std::to_string(options.virtual_ranks)},
    {virtual_slices_fact, std::to_string(options.cut.virtual_slices)},
    {"global-batch", std::to_string(options.global_batch)},
    {"optimizer", options.optimizer},
    {"data's number of samples", std::to_string(options.samples)},
    {shuffle_fact, shuffle_of(job.sampling.blocks())}};
  // A step is one update where layers are all-reduced, else V of them.
  if (options.synchronisation == Synchronisation::async)
    facts.emplace_back("dense", options.dense);
  return facts;
}

CheckpointFacts settings_of(const Job& job) {
  const auto& options = job.options;
  const auto& rule = options.rule;
  CheckpointFacts out{
    {"lr", print(options.learning_rate)},
    {"lr-schedule", name_of(options.lr.schedule)},
    {"warmup-steps", std::to_string(options.lr.warmup_steps)},
    {"min-lr", print(options.lr.min)},
    {"clip-norm", print(options.clip_norm)},
    {"dropout", print(options.dropout)},
    {"precision", options.precision},
    {"reduction", options.reduction},
    {"sparse-updates", options.sparse_updates},
    {"tables", job.tables.empty() ? "dense" : "sparse"},
    {"momentum", print(rule.momentum)},
    {"beta1", print(rule.beta1)},
    {"beta2", print(rule.beta2)},
    {"epsilon", print(rule.epsilon)},
    {"weight-decay", print(rule.weight_decay)},
    {"l1", print(rule.l1)},
    {"l2", print(rule.l2)},
  };
  // Other schedules do not know where the run ends.
  if (options.lr.schedule == LrSchedule::cosine
      || options.lr.schedule == LrSchedule::step)
    out.emplace_back("steps", std::to_string(job.total_steps));
  return out;
}

std::string differences(const CheckpointFacts& of_job,
                        const CheckpointFacts& of_checkpoint) {
  std::string out;
  for (const auto& [name, value] : of_job)
    for (const auto& [known, then] : of_checkpoint)
      if (known == name && then != value)
        out += (out.empty() ? "--" : ", --") + name + ' ' + value + " ("
               + shown_text(then) + " in the checkpoint)";
  return out;
}

Beginning::Beginning(const Job& job, const std::string& folder)
  : reader_(folder),
    graph_(job.graph),
    seed_(job.options.seed),
    virtual_ranks_(job.options.virtual_ranks) {
  const auto& manifest = reader_.manifest();
  auto known = manifest.facts;
  add_fact(known, virtual_slices_fact, "1");
  add_fact(known, shuffle_fact, "all");
  const auto facts = facts_of(job);
  for (const auto& fact : facts)
    if (const auto first = differences({fact}, known); !first.empty())
      throw InputError(
        folder + ": cannot go on from it with " + first
        + (fact.first == virtual_slices_fact && has_tensor_members(job.options)
             ? "; go on with another strategy, or begin with "
               "its weights (checkpoint export, "
               "--initial-weights)"
             : "; give what it was trained with"));
  period_ = period_as(first_period(job.options));
  const auto runs = 1 + state_slots(job.options.rule.kind);
  for (uint32_t variable = 0; variable < job.plan.variables.size();
       ++variable) {
    auto& names = names_.emplace_back();
    for (uint32_t run = 0; run < runs; ++run)
      names.push_back(tensor_name(job, whole_of(job.graph, variable), run));
  }
  for (const auto& slice : job.plan.slices) {
    const auto known =
      std::ranges::find_if(manifest.slices, [&](const CheckpointSlice& x) {
        return x.variable == job.plan.variables[slice.variable].name
               && x.offset == slice.offset && x.count == slice.count
               && x.partition == slice.partition;
      });
    if (slice.sparse())
      check_table(job, slice, reader_);
    marks_.push_back(known != manifest.slices.end() ? *known
                                                    : common_mark(reader_));
    if (!slice.sparse())
      check_layer(job, marks_.back(), manifest, folder);
    check_mark(job, marks_.back(), !slice.sparse() && job.plan.dense_reduced,
               manifest, folder);
  }
}

Consistency Beginning::period_as(const Consistency& mode) const {
  const auto& manifest = reader_.manifest();
  Consistency out{manifest.period.async, -1, 0, manifest.period.step,
                  manifest.period.updates};
  if (mode.async != out.async) {
    common_mark(reader_);
    out = out.next(mode.async, mode.staleness, manifest.step, virtual_ranks_);
  }
  out.period = mode.period;
  out.staleness = mode.staleness;
  return out;
}

std::shared_ptr<const Beginning> beginning_at(const Job& job,
                                              const std::string& folder) {
  return folder.empty() ? job.beginning
                        : std::make_shared<const Beginning>(job, folder);
}

LeaseSet Beginning::leases(uint32_t slice) const {
  return {marks_[slice].lease_floor, marks_[slice].leases_above};
}

void Beginning::read(uint32_t variable, uint32_t run, uint64_t offset,
                     std::span<float> out) const {
  if (reader_.manifest().find(names_[variable][run]) == nullptr
      && table_parts(reader_, names_[variable][0]) > 0)
    return read_table(variable, run, offset, out);
  for_runs(graph_, variable, offset, out.size(),
           [&](uint64_t at, uint64_t in_whole, uint64_t elements) {
             reader_.read(names_[variable][run], in_whole,
                          out.subspan(at, elements));
           });
}

TableOfJob Beginning::table(uint32_t variable) const {
  return {names_[variable][0], graph_.parameters[variable].shape.front()};
}

void Beginning::read_table(uint32_t variable, uint32_t run, uint64_t offset,
                           std::span<float> out) const {
  const auto table = this->table(variable);
  const auto& shape = graph_.parameters[variable].shape;
  const auto width = elements(shape) / shape.front();
  const auto stored = stored_width(reader_, table.name);
  if (stored / width <= run)
    throw InputError(reader_.folder() + ": the rows of table " + table.name
                     + " have " + std::to_string(stored)
                     + " values, fewer than the model needs; use another "
                       "checkpoint");
  if (run == 0)
    initialize(graph_, seed_, variable, offset, out.data(), out.size());
  else
    std::fill(out.begin(), out.end(), 0.0f);
  const auto parts = table_parts(reader_, table.name);
  for (uint32_t part = 0; part < parts; ++part)
    read_stored_part(reader_, table, part,
                     [&](const IdPages& ids, const float* rows) {
                       for_each_id(ids, [&](uint64_t id) {
                         for (uint64_t i = 0; i < width; ++i)
                           if (const auto at = id * width + i;
                               at >= offset && at - offset < out.size())
                             out[at - offset] = rows[run * width + i];
                         rows += stored;
                       });
                     });
}

void Beginning::read_rows(const Slice& slice, const TakeRows& take) const {
  read_part(reader_, table(slice.variable), slice.partition, slice.partitions,
            take);
}

} // namespace troupe
