#include "actors/job/shard_tables.hpp"

#include "actors/job/row_words.hpp"
#include "kernels/base/require.hpp"

#include <algorithm>
#include <utility>

namespace troupe {
namespace {

/// Chunks of copies leave room below what a message may hold.
constexpr size_t chunk_bytes = TensorView::max_bytes / 2;
constexpr uint64_t first_table = uint64_t{1} << 38; ///< bytes

/// A part's share of a limit over all tables.
uint64_t share(const Job& job, const Slice& slice, uint64_t limit) {
  uint64_t all = 0;
  for (const auto& each : job.plan.slices)
    all += each.expected;
  const auto part = static_cast<double>(slice.expected)
                    / static_cast<double>(std::max<uint64_t>(1, all));
  return static_cast<uint64_t>(static_cast<double>(limit) * part);
}

} // namespace

bool has_exact_rows(const Job& job) {
  return !job.tables.empty() && job.lazy.empty();
}

size_t row_width(const Job& job, const Slice& slice) {
  const auto& shape = job.graph.parameters[slice.variable].shape;
  return elements(shape) / shape.front();
}

TableOptions table_options(const Job& job, const Slice& slice) {
  TableOptions options;
  options.width = row_width(job, slice);
  options.slots = state_slots(job.options.rule.kind);
  options.initial = [&job, variable = slice.variable, width = options.width](
                      uint64_t first, uint64_t rows, float* out) {
    initialize(job.graph, job.options.seed, variable, first * width, out,
               rows * width);
  };
  options.eviction.max_bytes =
    job.options.table_bytes == 0
      ? 0
      : std::max<uint64_t>(1, share(job, slice, job.options.table_bytes));
  options.eviction.idle_steps = job.options.table_idle_steps;
  options.eviction.kept_count = job.options.table_keep_count;
  if (has_exact_rows(job)) {
    options.idle.rule = job.options.rule;
    options.idle.kind = idle_update(
      job.options.rule, job.graph.parameters[slice.variable].decays);
  }
  return options;
}

size_t row_copy_width(const Job& job, const Slice& slice) {
  const auto options = table_options(job, slice);
  return options.width * (1 + options.slots)
         + (options.eviction.any() ? sizeof(uint64_t) / sizeof(float) : 0);
}

uint64_t table_offset(const Job& job, const Slice& slice) {
  uint64_t before = 0; // tables are few: the range of addresses stays small
  for (uint32_t id = 0; id < slice.id; ++id)
    before += job.plan.slices[id].sparse() ? 1 : 0;
  return first_table + before * kernels::RowMemory::max_bytes;
}

bool has_all_rows(const Job& job, const Slice& slice) {
  return job.options.table_fill
         || table_options(job, slice).idle.kind == IdleUpdate::moves;
}

IdPages all_rows(const Job& job, const Slice& slice) {
  IdPages pages;
  const auto rows = job.graph.parameters[slice.variable].shape.front();
  for (uint64_t first = 0; first < rows; first += page_ids)
    if (const auto page = first / page_ids;
        partition_of(page, slice.partitions) == slice.partition) {
      const auto absent = page_ids - std::min<uint64_t>(page_ids, rows - first);
      pages.push_back({page, ~uint64_t{0} >> absent});
    }
  return pages;
}

bool fits(const Job& job, uint32_t slice, const TensorView& values) {
  const auto& of = job.plan.slices[slice];
  return values.size() == 0 || of.sparse() || values.size() == of.count;
}

std::optional<IdPages> wanted_rows(const Job& job, const Slice& slice,
                                   const RowPull& pull) {
  const auto width = row_width(job, slice);
  return read_wanted(pull.ids.span(), width,
                     TensorView::max_bytes / sizeof(float) / width);
}

std::optional<TensorView> read_rows(const SparseTable& table, uint64_t version,
                                    const RowList& ids, LinkMemory* memory) {
  if (version > table.version() || version + 1 < table.version())
    return std::nullopt;
  const auto count = ids.count() * table.width();
  if (count == 0)
    return TensorView{};
  OutgoingWords values{count, memory};
  if (version == table.version())
    table.read(ids, values.data());
  else
    table.read_before(ids, values.data());
  return std::move(values).view();
}

std::vector<IdPages> chunks_of(const SparseTable& table, const IdPages& pages) {
  const auto max_rows = std::max<size_t>(1, chunk_bytes / sizeof(float)
                                              / table.copy_width() / page_ids)
                        * page_ids;
  std::vector<IdPages> chunks;
  for (size_t begin = 0; begin < pages.size() || chunks.empty();) {
    uint64_t rows = 0;
    auto end = begin;
    while (end < pages.size() && rows + pages[end].count() <= max_rows)
      rows += pages[end++].count();
    chunks.emplace_back(pages.begin() + static_cast<ptrdiff_t>(begin),
                        pages.begin() + static_cast<ptrdiff_t>(end));
    begin = end;
  }
  return chunks;
}

TensorView copy_rows_before(const SparseTable& table, const IdPages& pages) {
  RowWords chunk{encode_pages(pages), count_ids(pages), table.copy_width()};
  table.copy_before(pages, chunk.values());
  return std::move(chunk).view();
}

TensorView copy_rows(const SparseTable& table, const IdPages& pages) {
  RowWords chunk{encode_pages(pages), count_ids(pages), table.copy_width()};
  table.copy(pages, chunk.values());
  return std::move(chunk).view();
}

} // namespace troupe
