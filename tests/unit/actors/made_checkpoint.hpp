#pragma once

#include "actors/job/beginning.hpp"
#include "actors/job/checkpoint_rows.hpp"
#include "actors/job/job.hpp"
#include "actors/job/shard_tables.hpp"
#include "kernels/checkpoint/write_checkpoint.hpp"
#include "kernels/table/id_pages.hpp"

#include <cstdint>
#include <list>
#include <string>
#include <vector>

namespace troupe::test {

/// A synchronous job with tables of two parts or more, and dense layers.
inline Job job_with_tables() {
  JobOptions options;
  options.model = "logreg";
  options.strategy = Strategy::parameter_server;
  options.optimizer = "adagrad";
  options.rule.kind = OptimizerKind::adagrad;
  options.devices = {"cpu:0"};
  options.workers = 1;
  options.shards = 1;
  options.steps = 100;
  options.global_batch = 8;
  options.virtual_ranks = 4;
  options.samples = 64;
  options.sample.features = {3};
  options.sample.ids = 2;
  options.sample.vocabulary = 600'000;
  options.sample.label = LabelKind::binary;
  return Job{options};
}

/// A checkpoint of `job` at `step`, in a new folder of `dir`: of each part of a
/// table a few rows, all values the same.
inline std::string make_checkpoint(const Job& job, const std::string& dir,
                                   uint64_t step) {
  const auto runs = 1 + state_slots(job.options.rule.kind);
  std::list<std::vector<float>> values;
  std::list<std::vector<int64_t>> ids;
  CheckpointToWrite out;
  out.manifest.step = step;
  out.manifest.facts = facts_of(job);
  out.manifest.settings = settings_of(job);
  FileToWrite dense{"parameters.safetensors", {}, {}};
  FileToWrite tables{"tables.safetensors", {}, {}};
  const auto some = [&](uint64_t count) {
    return std::as_bytes(std::span{values.emplace_back(count, 0.5f)});
  };
  for (const auto& slice : job.plan.slices) {
    const auto& variable = job.plan.variables[slice.variable];
    CheckpointSlice mark;
    mark.variable = variable.name;
    mark.offset = slice.offset;
    mark.count = slice.count;
    mark.partition = slice.partition;
    mark.updates = step;
    mark.lease_floor = step * job.options.virtual_ranks;
    out.manifest.slices.push_back(mark);
    if (!slice.sparse()) {
      for (uint32_t run = 0; slice.offset == 0 && run < runs; ++run)
        dense.tensors.push_back({tensor_name(job, slice.variable, run),
                                 "F32",
                                 variable.shape,
                                 {some(variable.size())}});
      continue;
    }
    auto& of_part = ids.emplace_back();
    for (uint64_t id = 0; id < variable.shape.front(); id += 7 * page_ids)
      if (partition_of(id / page_ids, slice.partitions) == slice.partition)
        of_part.push_back(static_cast<int64_t>(id));
    const auto part = variable.name + "/part-"
                      + std::to_string(slice.partition);
    const auto width = row_copy_width(job, slice);
    tables.tensors.push_back({part + "/ids",
                              "I64",
                              {of_part.size()},
                              {std::as_bytes(std::span{of_part})}});
    tables.tensors.push_back({part + "/rows",
                              "F32",
                              {of_part.size(), width},
                              {some(of_part.size() * width)}});
  }
  out.files = {dense, tables};
  return write_checkpoint(real_files(), dir, out);
}

/// Reads all that a job takes from its beginning, as its roles do.
inline uint64_t read_all(const Job& job, const Beginning& beginning) {
  const auto runs = 1 + state_slots(job.options.rule.kind);
  uint64_t rows = 0;
  for (const auto& slice : job.plan.slices) {
    if (slice.sparse()) {
      const auto width = row_copy_width(job, slice);
      float sum = 0;
      beginning.read_rows(slice, [&](const IdPages& ids, const float* values) {
        const auto count = count_ids(ids);
        for (uint64_t i = 0; i < count * width; ++i)
          sum += values[i]; // a sanitizer looks whether it is there
        rows += count;
      });
    }
    for (uint32_t run = 0; run < runs; ++run) {
      std::vector<float> some(slice.sparse() ? 16 : slice.count);
      beginning.read(slice.variable, run, slice.sparse() ? 0 : slice.offset,
                     some);
    }
  }
  return rows;
}

} // namespace troupe::test
