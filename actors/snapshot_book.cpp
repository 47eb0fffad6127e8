#include "actors/snapshot_book.hpp"

#include "actors/shard_tables.hpp"

#include <algorithm>
#include <functional>
#include <map>

namespace troupe {

SnapshotBook::Partial& SnapshotBook::partial(uint64_t version) {
  const auto slices = job_.plan.slices.size();
  auto& partial = partial_[version];
  if (partial.present.empty()) {
    partial.slices.resize(slices);
    partial.rows.resize(slices);
    partial.chunks.resize(slices);
    partial.present.resize(slices);
    partial.missing = slices;
  }
  return partial;
}

std::optional<Snapshot> SnapshotBook::add(const SnapshotSlice& slice) {
  const auto& slices = job_.plan.slices;
  if (slice.slice >= slices.size() || slices[slice.slice].sparse()
      || slice.values.size() != slices[slice.slice].count
      || slice.state.size() != state_slots(job_.options.rule.kind))
    return std::nullopt;
  for (const auto& slot : slice.state)
    if (slot.size() != slice.values.size())
      return std::nullopt;
  auto& part = partial(slice.version);
  if (part.present[slice.slice])
    return std::nullopt;
  part.slices[slice.slice] = slice;
  return arrived(slice.version, slice.slice);
}

std::optional<Snapshot> SnapshotBook::add(const RowSnapshot& chunk) {
  const auto& slices = job_.plan.slices;
  if (chunk.slice >= slices.size() || !slices[chunk.slice].sparse()
      || chunk.part >= chunk.parts || chunk.rows.size() == 0)
    return std::nullopt;
  auto& part = partial(chunk.version);
  auto& rows = part.rows[chunk.slice];
  if (part.present[chunk.slice])
    return std::nullopt;
  if (rows.size() != chunk.parts) { // of an owner that died meanwhile
    rows.assign(chunk.parts, {});
    part.chunks[chunk.slice] = chunk.parts;
  }
  if (rows[chunk.part].size() == 0)
    --part.chunks[chunk.slice];
  rows[chunk.part] = chunk.rows;
  if (part.chunks[chunk.slice] > 0)
    return std::nullopt;
  return arrived(chunk.version, chunk.slice);
}

std::optional<Snapshot> SnapshotBook::arrived(uint64_t version,
                                              uint32_t slice) {
  auto& part = partial_[version];
  part.present[slice] = true;
  if (--part.missing > 0)
    return std::nullopt;
  Snapshot whole{version, std::move(part.slices), std::move(part.rows)};
  // Older ones can no longer become whole; this one stays marked as done.
  partial_.erase(partial_.begin(), partial_.find(version));
  part.slices.assign(part.present.size(), {});
  part.rows.assign(part.present.size(), {});
  return whole;
}

std::vector<Evaluate> evaluation_parts(uint64_t job, const Snapshot& snapshot) {
  std::vector<Evaluate> parts;
  for (uint32_t id = 0; id < snapshot.slices.size(); ++id) {
    if (snapshot.rows[id].empty())
      parts.push_back(
        {job, snapshot.version, id, 0, snapshot.slices[id].values});
    for (const auto& chunk : snapshot.rows[id])
      parts.push_back({job, snapshot.version, id, 0, chunk});
  }
  for (auto& part : parts)
    part.slices = static_cast<uint32_t>(parts.size());
  return parts;
}

void put_rows(const Job& job, const Slice& slice,
              const std::vector<TensorView>& chunks, uint32_t run,
              float* table) {
  const auto width = row_width(job, slice);
  const auto copy_width = row_copy_width(job, slice);
  for (const auto& chunk : chunks)
    if (const auto rows = read_payload(chunk.span(), copy_width)) {
      const auto* row = rows->values;
      for_each_id(rows->pages, [&](uint64_t id) {
        std::copy_n(row + run * width, width, table + id * width);
        row += copy_width;
      });
    }
}

namespace {

/// One variable's parameters (run 0), or a slot of its optimizer state.
NamedTensor gather(const Job& job, const Snapshot& snapshot, uint32_t variable,
                   uint32_t run) {
  const auto& of = job.plan.variables[variable];
  const auto prefix =
    run == 0 ? std::string{} : state_name(job.options.rule.kind, run - 1) + "/";
  NamedTensor tensor{prefix + of.name, of.shape, std::vector<float>(of.size())};
  auto* to = tensor.values.data();
  if (run == 0 && of.partitions > 0) // rows that nobody has touched
    initialize(job.graph, job.options.seed, variable, 0, to, of.size());
  for (const auto& slice : job.plan.slices) {
    if (slice.variable != variable)
      continue;
    if (slice.sparse()) {
      put_rows(job, slice, snapshot.rows[slice.id], run, to);
      continue;
    }
    const auto& its = snapshot.slices[slice.id];
    const auto& part = run == 0 ? its.values : its.state[run - 1];
    std::copy_n(part.data(), part.size(), to + slice.offset);
  }
  return tensor;
}

/// Step and data position follow from the version; exact up to 2^24 each.
NamedTensor step_of(const Snapshot& snapshot) {
  const auto version = snapshot.version;
  return {"step",
          {2},
          {static_cast<float>(version >> 24),
           static_cast<float>(version & 0xffffff)}};
}

/// SHA-256 over all variables' runs 0 to below `runs`, and `more`.
std::string runs_sha256(const Job& job, const Snapshot& snapshot, uint32_t runs,
                        const std::vector<NamedTensor>& more) {
  std::map<std::string, std::function<NamedTensor()>> makers;
  for (const auto& tensor : more)
    makers[tensor.name] = [&tensor] { return tensor; };
  for (uint32_t run = 0; run < runs; ++run)
    for (uint32_t i = 0; i < job.plan.variables.size(); ++i) {
      auto name = job.plan.variables[i].name;
      if (run > 0)
        name = state_name(job.options.rule.kind, run - 1) + "/" + name;
      makers[name] = [&job, &snapshot, i, run] {
        return gather(job, snapshot, i, run);
      };
    }
  std::vector<std::string> names;
  for (const auto& [name, make] : makers)
    names.push_back(name);
  return tensors_sha256(names, [&](const std::string& name) {
    return makers.at(name)();
  });
}

} // namespace

std::vector<NamedTensor> weights_of(const Job& job, const Snapshot& snapshot) {
  std::vector<NamedTensor> tensors;
  for (uint32_t i = 0; i < job.plan.variables.size(); ++i)
    tensors.push_back(gather(job, snapshot, i, 0));
  return tensors;
}

std::string weights_sha256(const Job& job, const Snapshot& snapshot) {
  return runs_sha256(job, snapshot, 1, {});
}

std::string state_sha256(const Job& job, const Snapshot& snapshot) {
  return runs_sha256(job, snapshot, 1 + state_slots(job.options.rule.kind),
                     {step_of(snapshot)});
}

} // namespace troupe
