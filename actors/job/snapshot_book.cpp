#include "actors/job/snapshot_book.hpp"

#include "actors/job/shard_tables.hpp"
#include "actors/job/snapshot_names.hpp"
#include "kernels/files/tensor_hash.hpp"
#include "kernels/graph/virtual_slices.hpp"

#include <algorithm>
#include <functional>
#include <map>

namespace troupe {

SnapshotBook::Partial& SnapshotBook::partial(bool evaluated, uint64_t version) {
  const auto slices = job_.plan.slices.size();
  auto& partial = partial_[evaluated ? 1 : 0][version];
  if (partial.present.empty()) {
    partial.slices.resize(slices);
    partial.rows.resize(slices);
    partial.chunks.resize(slices);
    partial.present.resize(slices);
    partial.missing = slices;
  }
  return partial;
}

std::vector<Snapshot> SnapshotBook::add(const SnapshotSlice& slice) {
  const auto& slices = job_.plan.slices;
  if (slice.slice >= slices.size() || slices[slice.slice].sparse()
      || slice.values.size() != slices[slice.slice].count
      || slice.state.size() != state_slots(job_.options.rule.kind))
    return {};
  for (const auto& slot : slice.state)
    if (slot.size() != slice.values.size())
      return {};
  std::vector<Snapshot> whole;
  for (bool evaluated : {false, true}) {
    if (evaluated && job_.tables.empty())
      break;
    auto& part = partial(evaluated, slice.version);
    if (part.present[slice.slice])
      continue;
    part.slices[slice.slice] = slice;
    arrived(evaluated, slice.version, slice.slice, whole);
  }
  return whole;
}

std::vector<Snapshot> SnapshotBook::add(const RowSnapshot& chunk) {
  const auto& slices = job_.plan.slices;
  if (chunk.slice >= slices.size() || !slices[chunk.slice].sparse()
      || chunk.part >= chunk.parts || chunk.rows.size() == 0)
    return {};
  const bool evaluated = is_for_evaluation(chunk.version);
  const auto version = version_named(chunk.version);
  auto& part = partial(evaluated, version);
  auto& rows = part.rows[chunk.slice];
  if (part.present[chunk.slice])
    return {};
  if (rows.size() != chunk.parts) { // of an owner that died meanwhile
    rows.assign(chunk.parts, {});
    part.chunks[chunk.slice] = chunk.parts;
  }
  if (rows[chunk.part].size() == 0)
    --part.chunks[chunk.slice];
  rows[chunk.part] = chunk.rows;
  if (part.chunks[chunk.slice] > 0)
    return {};
  std::vector<Snapshot> whole;
  part.table_bytes += chunk.bytes;
  part.slices[chunk.slice].history = chunk.history;
  if (!evaluated) // an evaluation finds there what it reads
    if (auto& other = partial(true, version); !other.present[chunk.slice]) {
      other.rows[chunk.slice] = rows;
      arrived(true, version, chunk.slice, whole);
    }
  arrived(evaluated, version, chunk.slice, whole);
  return whole;
}

void SnapshotBook::arrived(bool evaluated, uint64_t version, uint32_t slice,
                           std::vector<Snapshot>& whole) {
  auto& versions = partial_[evaluated ? 1 : 0];
  auto& part = versions[version];
  part.present[slice] = true;
  if (--part.missing > 0)
    return;
  whole.push_back({version, std::move(part.slices), std::move(part.rows),
                   part.table_bytes, evaluated});
  // Older ones can no longer become whole; this one stays marked as done.
  versions.erase(versions.begin(), versions.find(version));
  part.slices.assign(part.present.size(), {});
  part.rows.assign(part.present.size(), {});
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

namespace {

/// The rows of one part of a table, page by page.
class PartRows {
public:
  PartRows(const std::vector<TensorView>& chunks, size_t copy_width)
    : chunks_(chunks), copy_width_(copy_width) {}

  /// The rows that are there of a page; pages are asked for in ascending order.
  IdPage take(uint64_t page, const float*& rows) {
    while (next_ == rows_.pages.size()) {
      auto payload = chunk_ == chunks_.size()
                       ? std::nullopt
                       : read_payload(chunks_[chunk_++].span(), copy_width_);
      if (!payload)
        return {page, 0};
      rows_ = std::move(*payload);
      next_ = 0;
    }
    if (rows_.pages[next_].page != page)
      return {page, 0};
    rows = rows_.values;
    rows_.values += rows_.pages[next_].count() * copy_width_;
    return rows_.pages[next_++];
  }

private:
  const std::vector<TensorView>& chunks_;
  size_t copy_width_;
  size_t chunk_ = 0;
  RowPayload rows_;
  size_t next_ = 0; ///< page
};

using Sink = std::function<void(std::span<const float>)>;

/// Gives all rows of a table in order, some at a time: what was touched, and
/// else what a row begins with.
void for_rows(const Job& job, const Snapshot& snapshot, uint32_t variable,
              uint32_t run, const Sink& sink) {
  const auto& of = job.plan.variables[variable];
  std::vector<PartRows> parts;
  size_t width = 0;
  size_t copy_width = 0;
  for (const auto& slice : job.plan.slices)
    if (slice.variable == variable) { // in order of their partitions
      width = row_width(job, slice);
      copy_width = row_copy_width(job, slice);
      parts.emplace_back(snapshot.rows[slice.id], copy_width);
    }
  std::vector<float> values(page_ids * width);
  for (uint64_t begin = 0; begin < of.shape.front(); begin += page_ids) {
    const auto count = std::min<uint64_t>(page_ids, of.shape.front() - begin);
    const auto page = begin / page_ids;
    const float* row = nullptr;
    const auto there = parts[partition_of(page, of.partitions)].take(page, row);
    if (run > 0)
      std::fill(values.begin(), values.end(), 0.0f);
    else if (there.count() < count) // rows that nobody has touched
      initialize(job.graph, job.options.seed, variable, begin * width,
                 values.data(), count * width);
    for_each_id({&there, there.bits != 0 ? size_t{1} : 0}, [&](uint64_t id) {
      std::copy_n(row + run * width, width,
                  values.begin()
                    + static_cast<ptrdiff_t>((id - begin) * width));
      row += copy_width;
    });
    sink(std::span{values}.first(count * width));
  }
}

/// Gives one variable's parameters (run 0), or a slot of its optimizer state.
void for_values(const Job& job, const Snapshot& snapshot, uint32_t variable,
                uint32_t run, const Sink& sink) {
  if (job.plan.variables[variable].partitions > 0) {
    for_rows(job, snapshot, variable, run, sink);
    return;
  }
  for (const auto& slice : job.plan.slices) // in order of their offsets
    if (slice.variable == variable) {
      const auto& its = snapshot.slices[slice.id];
      sink((run == 0 ? its.values : its.state[run - 1]).span());
    }
}

/// The same of a whole parameter, whose pieces are variables.
void for_whole(const Job& job, const Snapshot& snapshot, uint32_t whole,
               uint32_t run, const Sink& sink) {
  const auto pieces = pieces_of(job.graph, whole);
  if (pieces.size() == 1) {
    for_values(job, snapshot, pieces.front(), run, sink);
    return;
  }
  std::vector<float> joined(whole_parameters(job.graph)[whole].size());
  for (auto piece : pieces) {
    uint64_t at = 0;
    for_values(job, snapshot, piece, run, [&](std::span<const float> values) {
      put_piece(job.graph, piece, at, values, joined.data());
      at += values.size();
    });
  }
  sink(joined);
}

NamedTensor gather(const Job& job, const Snapshot& snapshot, uint32_t whole) {
  const auto& of = whole_parameters(job.graph)[whole];
  NamedTensor tensor{of.name, of.shape, {}};
  tensor.values.reserve(of.size());
  for_whole(job, snapshot, whole, 0, [&](std::span<const float> values) {
    tensor.values.insert(tensor.values.end(), values.begin(), values.end());
  });
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

/// SHA-256 over all whole parameters' runs 0 to below `runs`, and `more`.
std::string runs_sha256(const Job& job, const Snapshot& snapshot, uint32_t runs,
                        const std::vector<NamedTensor>& more) {
  std::map<std::string, std::function<void(TensorHash&)>> adders;
  for (const auto& tensor : more)
    adders[tensor.name] = [&tensor](TensorHash& hash) { hash.add(tensor); };
  const auto& wholes = whole_parameters(job.graph);
  for (uint32_t run = 0; run < runs; ++run)
    for (uint32_t i = 0; i < wholes.size(); ++i) {
      auto name = wholes[i].name;
      if (run > 0)
        name = state_name(job.options.rule.kind, run - 1) + "/" + name;
      adders[name] = [&, name, i, run](TensorHash& hash) {
        hash.begin(name, wholes[i].shape);
        for_whole(job, snapshot, i, run,
                  [&](std::span<const float> values) { hash.values(values); });
      };
    }
  TensorHash hash;
  for (const auto& [name, add] : adders)
    add(hash);
  return hash.hex();
}

} // namespace

std::vector<NamedTensor> weights_of(const Job& job, const Snapshot& snapshot) {
  std::vector<NamedTensor> tensors;
  for (uint32_t i = 0; i < whole_parameters(job.graph).size(); ++i)
    tensors.push_back(gather(job, snapshot, i));
  return tensors;
}

TableSizes tables_of(const Job& job, const Snapshot& snapshot) {
  TableSizes sizes{0, snapshot.table_bytes};
  for (const auto& slice : job.plan.slices)
    for (const auto& chunk : snapshot.rows[slice.id])
      if (const auto rows = read_payload(chunk.span(),
                                         row_copy_width(job, slice)))
        sizes.rows += rows->rows;
  return sizes;
}

std::string weights_sha256(const Job& job, const Snapshot& snapshot) {
  return runs_sha256(job, snapshot, 1, {});
}

std::string state_sha256(const Job& job, const Snapshot& snapshot) {
  return runs_sha256(job, snapshot, 1 + state_slots(job.options.rule.kind),
                     {step_of(snapshot)});
}

} // namespace troupe
