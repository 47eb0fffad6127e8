#include "kernels/data/table_groups.hpp"

#include "kernels/base/error.hpp"
#include "kernels/data/csv.hpp"
#include "kernels/data/data_options.hpp"
#include "kernels/data/sample_windows.hpp"
#include "kernels/data/table_data.hpp"
#include "kernels/files/free_memory.hpp"
#include "kernels/records/decode_time.hpp"
#include "kernels/records/record_index.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

namespace troupe {

// --- row groups --------------------------------------------------------------

TableGroups::TableGroups(DataSpec spec, ReadLimits limits,
                         std::vector<TablePart> parts, uint64_t row_bytes,
                         uint64_t memory)
  : spec_(std::move(spec)),
    limits_(std::move(limits)),
    parts_(std::move(parts)),
    row_bytes_(row_bytes),
    memory_(memory),
    held_(memory) {
  firsts_.push_back(0);
  for (const auto& part : parts_)
    firsts_.push_back(firsts_.back() + part.rows);
}

size_t TableGroups::part_of(uint64_t sample) const {
  const auto after = std::upper_bound(firsts_.begin(), firsts_.end(), sample);
  return static_cast<size_t>(after - firsts_.begin()) - 1;
}

void TableGroups::read(uint64_t sample, void* row, const SampleDraw&) const {
  const auto i = part_of(sample);
  const auto rows = part(i);
  const auto width = rows->features();
  std::memcpy(row, rows->values.data() + (sample - firsts_[i]) * width,
              width * sizeof(float));
}

void TableGroups::read_ids(uint64_t sample, int32_t* ids) const {
  const auto i = part_of(sample);
  const auto rows = part(i);
  const auto width = rows->shape.ids;
  std::copy_n(rows->ids.data() + (sample - firsts_[i]) * width, width, ids);
}

uint64_t TableGroups::stored_bytes(uint64_t sample) const {
  const auto& part = parts_[part_of(sample)];
  return part.bytes / part.rows;
}

void TableGroups::check_mix(const Dataset& train, const MixRule& mix) const {
  const auto bytes =
    largest_window(train, mix, [&](uint64_t first, uint64_t last) {
      return row_bytes_
             * (firsts_[part_of(last) + 1] - firsts_[part_of(first)]);
    });
  if (bytes > memory_)
    throw InputError(
      train.name + ": " + std::to_string(mix.window) + " blocks of "
      + std::to_string(mix.block)
      + " samples, which are mixed at a time, lie in row groups of up to "
      + std::to_string(bytes) + " bytes, and " + std::to_string(memory_)
      + " may be held; raise --data-memory, give a smaller window= or block=, "
        "or write smaller row groups");
}

std::shared_ptr<const Dataset> TableGroups::part(size_t i) const {
  return held_.get(i, bytes_of(i), [&] { return read_part(i); });
}

std::shared_ptr<const Dataset> TableGroups::read_part(size_t i) const {
  const auto& part = parts_[i];
  if (state_of(part.file) != part.state)
    throw InputError(part.file.name()
                     + ": changed since its samples were counted; let its "
                       "writer finish, then start again");
  const DecodeTimer decodes{1}; // Arrow reads and decodes at a time
  auto rows = read_table_part(spec_, limits_, &part);
  if (rows.samples() != part.rows)
    throw InputError(part.file.name() + ": row group "
                     + std::to_string(part.group) + ": holds "
                     + std::to_string(rows.samples())
                     + " rows, and the end of the file says "
                     + std::to_string(part.rows) + "; write it again");
  if (columns_)
    apply_columns(columns_, rows, true);
  return std::make_shared<const Dataset>(std::move(rows));
}

void TableGroups::drop() {
  held_.clear();
}

void TableGroups::take(const std::shared_ptr<FittedColumns>& columns) {
  if (columns_ == columns)
    return;
  columns_ = columns;
  held_.clear();
}

void TableGroups::for_parts(
  const Dataset& set,
  const std::function<void(const Dataset&, const std::vector<uint64_t>&)>& use)
  const {
  std::vector<uint64_t> rows;
  const auto samples = set.samples();
  for (uint64_t i = 0; i < samples;) {
    const auto at = part_of(set.place(i));
    rows.clear();
    for (; i < samples && set.place(i) < firsts_[at + 1]; ++i)
      rows.push_back(set.place(i) - firsts_[at]);
    use(*part(at), rows);
  }
}

// --- a table of them ---------------------------------------------------------

namespace {

/// Of the free memory, where nobody says how much.
constexpr uint64_t share_of_free = 4;
constexpr uint64_t label_bytes = sizeof(int32_t); ///< of a sample, held

/// So that what they take can be counted.
constexpr uint64_t max_group_rows = uint64_t{1} << 40;

/// What the ends of the files say.
struct LeftTable {
  struct File {
    DataFile file;
    FileState state;
    size_t first_part;
    size_t end_part;
    uint64_t rows;
  };
  std::vector<File> files;
  std::vector<TablePart> parts;   ///< in order, none of which is empty
  std::vector<std::string> names; ///< of the first file's columns
  uint64_t rows = 0;
};

LeftTable look_at(const DataSpec& spec, const ReadLimits& limits) {
  LeftTable out;
  const bool ruled = option(spec, "columns").has_value();
  for (const auto& file : list_files(spec.where, limits.store)) {
    const auto state = state_of(file);
    const ParquetFile table{file};
    if (out.names.empty())
      out.names = table.names();
    else if (!ruled && table.names() != out.names)
      table.refuse("is not the header of the first file",
                   "take files of the same columns in the same order");
    auto& known = out.files.emplace_back(
      LeftTable::File{file, state, out.parts.size(), 0, 0});
    for (uint32_t group = 0; group < table.groups(); ++group) {
      const auto size = table.group_size(group);
      if (size.rows > max_group_rows)
        table.refuse("row group " + std::to_string(group) + " says that it has "
                       + std::to_string(size.rows) + " rows",
                     "write it again");
      if (size.rows > 0)
        out.parts.push_back({file, group, size.rows, size.bytes, state});
      known.rows += size.rows;
    }
    known.end_part = out.parts.size();
    out.rows += known.rows;
  }
  return out;
}

/// The specification of a part: "*" stands for the same in all of them.
DataSpec spec_of_parts(DataSpec spec, const std::vector<std::string>& names) {
  if (!option(spec, "columns"))
    return spec;
  const auto rules = spread_rules(column_rules_of(spec), names);
  for (auto& [key, value] : spec.options)
    if (key == "columns")
      value = to_text(rules);
  return spec;
}

/// Values of features and ids.
uint64_t width_of(const DataSpec& spec, const std::vector<std::string>& names) {
  if (!option(spec, "columns"))
    return names.size();
  uint64_t width = 0;
  for (const auto& rule : column_rules_of(spec))
    width += rule.features() + (rule.has_id() ? 1 : 0);
  return width;
}

/// Labels of all parts, one after another.
class LeftLabels {
public:
  /// `columns`: of `out`, where there are rules; else null. `memory`: that may
  /// be taken beside the labels.
  LeftLabels(const DataSpec& spec, const ReadLimits& limits,
             const LeftTable& table, TableColumns* columns, uint64_t memory,
             Dataset& out)
    : spec_(spec),
      limits_(limits),
      table_(table),
      columns_(columns),
      memory_(memory),
      out_(out) {
    for (const auto* key : {"label", "task"})
      rule_ += '&' + option(spec, key).value_or("");
  }

  /// Those that an earlier run kept; false, and nothing taken, where not all
  /// are there.
  bool take_indexes() {
    if (!is_kept())
      return false;
    std::vector<FileIndex> indexes;
    for (const auto& file : table_.files) {
      if (file.rows == 0)
        continue;
      auto index = load_index(limits_.index_folder, file.file, rule_);
      if (!index || index->size() != file.rows)
        return false;
      indexes.push_back(std::move(*index));
    }
    for (const auto& index : indexes)
      for (uint64_t i = 0; i < index.size(); ++i)
        add(index[i].label);
    return true;
  }

  void add(const TablePart& part, const Dataset& rows) {
    out_.labelled = out_.labelled && rows.labelled;
    make_room(out_.labels, rows.labels.size(), part.file.name());
    make_room(out_.targets, rows.targets.size(), part.file.name());
    if (const auto column = label_column()) {
      const auto numbers = numbers_of(rows, *column);
      for (const auto label : rows.labels)
        out_.labels.push_back(
          rows.labelled ? numbers[static_cast<size_t>(label)] : 0);
    } else {
      out_.labels.insert(out_.labels.end(), rows.labels.begin(),
                         rows.labels.end());
    }
    out_.targets.insert(out_.targets.end(), rows.targets.begin(),
                        rows.targets.end());
  }

  void keep_indexes() {
    if (!is_kept() || !out_.labelled)
      return;
    uint64_t sample = 0;
    for (const auto& file : table_.files) {
      std::vector<IndexedRecord> records;
      if (file.rows > memory_ / sizeof(IndexedRecord))
        return; // they are read again
      records.reserve(file.rows);
      for (auto i = file.first_part; i < file.end_part; ++i)
        for (uint64_t row = 0; row < table_.parts[i].rows; ++row)
          records.push_back({table_.parts[i].group, 0, label(sample++)});
      keep_index(limits_.index_folder, file.file, rule_,
                 {file.state, std::move(records)});
    }
  }

private:
  /// Classes by rules are numbered by all of their texts.
  bool is_kept() const { return !option(spec_, "columns"); }
  bool is_number() const { return out_.shape.label == LabelKind::number; }

  void add(uint32_t label) {
    if (is_number())
      out_.targets.push_back(std::bit_cast<float>(label));
    else
      out_.labels.push_back(static_cast<int32_t>(label));
  }
  uint32_t label(uint64_t sample) const {
    return is_number() ? std::bit_cast<uint32_t>(out_.targets[sample])
                       : static_cast<uint32_t>(out_.labels[sample]);
  }

  std::optional<size_t> label_column() const {
    if (columns_ == nullptr)
      return std::nullopt;
    const auto& rules = columns_->rules;
    for (size_t i = 0; i < rules.size(); ++i)
      if (rules[i].kind == ColumnKind::label)
        return i;
    return std::nullopt;
  }

  /// What the texts of a part's labels are in the whole table.
  std::vector<int32_t> numbers_of(const Dataset& rows, size_t column) {
    const auto& values = rows.table->values[column];
    std::vector<int32_t> numbers;
    for (uint32_t i = 0; i < values.size(); ++i)
      numbers.push_back(add_value(columns_->rules[column], values.text(i),
                                  columns_->values[column], out_.name));
    return numbers;
  }

  const DataSpec& spec_;
  const ReadLimits& limits_;
  const LeftTable& table_;
  TableColumns* columns_;
  uint64_t memory_;
  Dataset& out_;
  std::string rule_ = "parquet";
};

} // namespace

std::optional<Dataset> leave_in_groups(const DataSpec& spec,
                                       const ReadLimits& limits) {
  const bool blocks = mix_rule(spec).block > 0;
  if (spec.kind != "parquet" || (!limits.memory && !blocks))
    return std::nullopt;
  const auto all_memory = limits.memory ? *limits.memory
                                        : free_memory() / share_of_free;
  const auto table = look_at(spec, limits);
  const auto of_parts = spec_of_parts(spec, table.names);
  const auto row_bytes = std::max<uint64_t>(1, width_of(of_parts, table.names))
                         * sizeof(float);
  if (table.rows == 0 || table.rows <= all_memory / row_bytes)
    return std::nullopt;
  Dataset out;
  out.name = spec.kind + ":" + spec.where;
  if (limits.trains && !blocks)
    throw InputError(out.name + ": takes about "
                     + std::to_string(table.rows * row_bytes)
                     + " bytes, more than --data-memory; add shuffle=blocks, "
                       "which reads row groups as they are wanted, or raise "
                       "it");
  const auto labels_bytes = table.rows * label_bytes;
  if (labels_bytes > all_memory)
    throw InputError(out.name + ": labels of " + std::to_string(table.rows)
                     + " rows take " + std::to_string(labels_bytes)
                     + " bytes, and " + std::to_string(all_memory)
                     + " may be held; raise --data-memory");
  const auto memory = all_memory - labels_bytes;
  for (const auto& part : table.parts)
    if (part.rows > memory / row_bytes)
      throw InputError(part.file.name() + ": row group "
                       + std::to_string(part.group) + " takes about "
                       + std::to_string(part.rows * row_bytes) + " bytes, and "
                       + std::to_string(memory)
                       + " may be held beside the labels; write smaller row "
                         "groups, or raise "
                         "--data-memory");
  const auto groups = std::make_shared<TableGroups>(
    of_parts, limits, table.parts, row_bytes, memory);
  auto first = groups->part(0);
  out.shape = first->shape;
  out.columns = first->columns;
  std::shared_ptr<TableColumns> columns;
  if (first->table) {
    columns = std::make_shared<TableColumns>();
    columns->rules = first->table->rules;
    columns->values.resize(columns->rules.size());
    columns->groups = groups;
    out.table = columns;
  }
  first.reset(); // it is not held beside others
  LeftLabels labels{spec, limits, table, columns.get(), memory, out};
  if (!labels.take_indexes()) {
    for (size_t i = 0; i < table.parts.size(); ++i)
      labels.add(table.parts[i], *groups->part(i));
    groups->drop();
    labels.keep_indexes();
  }
  out.in_files = groups;
  return out;
}

} // namespace troupe
