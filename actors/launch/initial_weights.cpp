#include "actors/launch/initial_weights.hpp"

#include "actors/coordinator/checkpoint_keeper.hpp"
#include "actors/coordinator/saved_weights.hpp"
#include "actors/job/beginning.hpp"
#include "actors/job/checkpoint_rows.hpp"
#include "actors/job/first_period.hpp"
#include "actors/job/trained_model.hpp"
#include "kernels/base/error.hpp"
#include "kernels/checkpoint/write_checkpoint.hpp"
#include "kernels/graph/virtual_slices.hpp"

#include <algorithm>
#include <cmath>
#include <span>
#include <vector>

namespace troupe {
namespace {

TensorToWrite tensor_to_write(const Job& job, uint32_t whole, uint32_t run,
                              const float* values) {
  TensorToWrite out;
  out.name = tensor_name(job, whole, run);
  out.shape = whole_parameters(job.graph)[whole].shape;
  out.parts = {std::as_bytes(std::span{values, elements(out.shape)})};
  return out;
}

/// Where the weights say which values their ids and classes stand for, these
/// are the job's.
void check_values(const Job& job, const std::string& initial) {
  if (const auto other = other_meaning(job, initial); !other.empty())
    throw InputError("--initial-weights " + initial + ": its " + other
                     + " --data, whose ids or classes would mean others; train "
                       "on the data that it was trained on, or on "
                     + (job.columns.empty()
                          ? "text by its tokenizer= or by level=byte"
                          : "ids by buckets="));
}

} // namespace

std::string write_initial_weights(const Job& job,
                                  const CheckpointOptions& options,
                                  const std::string& fingerprint) {
  const auto model = load_trained_model(job.options.model, job.options.sample,
                                        options.initial);
  check_values(job, options.initial);
  const Layout layout{model.graph};
  for (size_t i = 0; i < model.graph.parameters.size(); ++i) {
    const auto& parameter = model.graph.parameters[i];
    const auto* values = model.parameters.data() + layout.offsets[i];
    if (!std::all_of(values, values + parameter.size(),
                     [](float x) { return std::isfinite(x); }))
      throw InputError("--initial-weights " + options.initial + ": tensor "
                       + parameter.name
                       + " has a value that is not a finite number");
  }
  const std::vector<float> zeros(layout.total);
  std::vector<uint32_t> wholes; // but for tables, which go by rows
  for (uint32_t i = 0; i < model.graph.parameters.size(); ++i)
    if (job.plan.variables[pieces_of(job.graph, i).front()].partitions == 0)
      wholes.push_back(i);
  CheckpointToWrite out;
  const auto metadata = weights_metadata(job, 0);
  out.files.push_back(
    {"parameters.safetensors", {}, {metadata.begin(), metadata.end()}});
  for (auto i : wholes)
    out.files.front().tensors.push_back(
      tensor_to_write(job, i, 0, model.parameters.data() + layout.offsets[i]));
  if (const auto slots = state_slots(job.options.rule.kind); slots > 0) {
    out.files.push_back({"optimizer.safetensors", {}, {}});
    for (uint32_t run = 1; run <= slots; ++run)
      for (auto i : wholes)
        out.files.back().tensors.push_back(
          tensor_to_write(job, i, run, zeros.data()));
  }
  RowsToWrite kept;
  if (!job.tables.empty())
    out.files.push_back(whole_table_file(
      job,
      [&](uint32_t variable) {
        return model.parameters.data()
               + layout.offsets[whole_of(job.graph, variable)];
      },
      kept));
  describe_checkpoint(job, fingerprint, out.manifest);
  out.manifest.cause = "initial";
  const auto period = first_period(job.options);
  out.manifest.period = {period.async, period.step, period.updates};
  for (const auto& slice : job.plan.slices) {
    CheckpointSlice mark;
    mark.variable = job.plan.variables[slice.variable].name;
    mark.offset = slice.offset;
    mark.count = slice.count;
    mark.partition = slice.partition;
    out.manifest.slices.push_back(std::move(mark));
  }
  return write_checkpoint(real_files(), options.dir, out);
}

} // namespace troupe
