#include "actors/job/checkpoint_rows.hpp"

#include "actors/job/shard_tables.hpp"
#include "kernels/base/error.hpp"

#include <algorithm>

namespace troupe {
namespace {

/// Rows that are read at once.
constexpr uint64_t max_rows = 8192;

std::string ids_name(const std::string& table, uint32_t part) {
  return table + "/part-" + std::to_string(part) + "/ids";
}

std::string rows_name(const std::string& table, uint32_t part) {
  return table + "/part-" + std::to_string(part) + "/rows";
}

[[noreturn]] void refuse(const CheckpointReader& reader,
                         const std::string& table, const std::string& what) {
  throw InputError(reader.folder() + ": table " + table + ": " + what
                   + "; the checkpoint is damaged: use another");
}

/// A part as the manifest describes it.
struct StoredPart {
  const CheckpointTensor* ids = nullptr;
  const CheckpointTensor* rows = nullptr;
  uint64_t count = 0;
  uint64_t width = 0;
};

StoredPart stored(const CheckpointReader& reader, const std::string& table,
                  uint32_t part) {
  const auto* ids = reader.manifest().find(ids_name(table, part));
  const auto* rows = reader.manifest().find(rows_name(table, part));
  if (ids == nullptr || rows == nullptr || rows->shape.size() != 2
      || ids->shape != std::vector<uint64_t>{rows->shape[0]}
      || rows->dtype != "F32" || ids->dtype != "I64")
    refuse(reader, table, "its rows are not as they are written");
  return {ids, rows, rows->shape[0], rows->shape[1]};
}

/// Whoever takes rows goes by their ids: none twice, none that the table or
/// that part of it has not got.
class IdCheck {
public:
  IdCheck(const CheckpointReader& reader, const TableOfJob& table,
          uint32_t part, uint32_t parts)
    : reader_(reader), table_(table), part_(part), parts_(parts) {}

  void see(std::span<const uint64_t> ids) {
    for (auto id : ids) {
      if (id < next_)
        refuse(reader_, table_.name, "its ids do not ascend");
      if (id >= table_.rows)
        refuse(reader_, table_.name,
               "it has the id " + std::to_string(id) + " of "
                 + std::to_string(table_.rows) + " rows");
      if (partition_of(id / page_ids, parts_) != part_)
        refuse(reader_, table_.name, "an id is in another's part");
      next_ = id + 1;
    }
  }

private:
  const CheckpointReader& reader_;
  const TableOfJob& table_;
  uint32_t part_;
  uint32_t parts_;
  uint64_t next_ = 0; ///< the least that may come
};

} // namespace

FileToWrite table_file(const Job& job, const Snapshot& snapshot,
                       std::vector<std::vector<int64_t>>& ids) {
  FileToWrite out;
  out.name = "tables.safetensors";
  ids.assign(job.plan.slices.size(), {});
  for (const auto& slice : job.plan.slices) {
    if (!slice.sparse())
      continue;
    const auto& table = job.plan.variables[slice.variable].name;
    const auto width = row_copy_width(job, slice);
    TensorToWrite rows;
    rows.name = rows_name(table, slice.partition);
    auto& of_part = ids[slice.id];
    for (const auto& chunk : snapshot.rows[slice.id])
      if (const auto read = read_payload(chunk.span(), width)) {
        for_each_id(read->pages, [&](uint64_t id) {
          of_part.push_back(static_cast<int64_t>(id));
        });
        rows.parts.push_back(
          std::as_bytes(std::span{read->values, read->rows * width}));
      }
    rows.shape = {of_part.size(), width};
    out.tensors.push_back({ids_name(table, slice.partition),
                           "I64",
                           {of_part.size()},
                           {std::as_bytes(std::span{of_part})}});
    out.tensors.push_back(std::move(rows));
  }
  return out;
}

FileToWrite
whole_table_file(const Job& job,
                 const std::function<const float*(uint32_t variable)>& rows_of,
                 RowsToWrite& kept) {
  FileToWrite out;
  out.name = "tables.safetensors";
  for (const auto& slice : job.plan.slices) {
    if (!slice.sparse())
      continue;
    const auto& table = job.plan.variables[slice.variable].name;
    const auto width = row_width(job, slice);
    const auto copy_width = row_copy_width(job, slice);
    const auto* from = rows_of(slice.variable);
    auto& ids = kept.ids.emplace_back();
    for_each_id(all_rows(job, slice),
                [&](uint64_t id) { ids.push_back(static_cast<int64_t>(id)); });
    auto& rows = kept.rows.emplace_back(ids.size() * copy_width);
    for (size_t i = 0; i < ids.size(); ++i)
      std::copy_n(from + static_cast<uint64_t>(ids[i]) * width, width,
                  rows.data() + i * copy_width);
    out.tensors.push_back({ids_name(table, slice.partition),
                           "I64",
                           {ids.size()},
                           {std::as_bytes(std::span{ids})}});
    TensorToWrite part;
    part.name = rows_name(table, slice.partition);
    part.shape = {ids.size(), copy_width};
    part.parts = {std::as_bytes(std::span{rows})};
    out.tensors.push_back(std::move(part));
  }
  return out;
}

uint32_t table_parts(const CheckpointReader& reader, const std::string& table) {
  uint32_t parts = 0;
  while (reader.manifest().find(ids_name(table, parts)) != nullptr)
    ++parts;
  return parts;
}

uint64_t stored_width(const CheckpointReader& reader,
                      const std::string& table) {
  const auto first = stored(reader, table, 0).width;
  for (uint32_t part = 1; part < table_parts(reader, table); ++part)
    if (stored(reader, table, part).width != first)
      refuse(reader, table, "its rows are of different widths");
  return first;
}

void read_stored_part(const CheckpointReader& reader, const TableOfJob& table,
                      uint32_t part, const TakeRows& take) {
  const auto [ids, rows, count, width] = stored(reader, table.name, part);
  IdCheck check{reader, table, part, table_parts(reader, table.name)};
  std::vector<uint64_t> some;
  std::vector<float> values;
  for (uint64_t begin = 0; begin < count; begin += max_rows) {
    some.resize(std::min(max_rows, count - begin));
    values.resize(some.size() * width);
    reader.read(*ids, begin * sizeof(uint64_t),
                std::as_writable_bytes(std::span{some}));
    reader.read(*rows, begin * width * sizeof(float),
                std::as_writable_bytes(std::span{values}));
    check.see(some);
    take(pages_of(some), values.data());
  }
}

void read_part(const CheckpointReader& reader, const TableOfJob& table,
               uint32_t partition, uint32_t partitions, const TakeRows& take) {
  const auto parts = table_parts(reader, table.name);
  const auto width = stored_width(reader, table.name);
  if (parts == partitions)
    return read_stored_part(reader, table, partition, take);
  for (uint32_t part = 0; part < parts; ++part)
    read_stored_part(reader, table, part,
                     [&](const IdPages& ids, const float* rows) {
                       for (const auto& page : ids) {
                         if (partition_of(page.page, partitions) == partition)
                           take({page}, rows);
                         rows += page.count() * width;
                       }
                     });
}

} // namespace troupe
