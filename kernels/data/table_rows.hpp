#pragma once

#include "kernels/data/data_spec.hpp"
#include "kernels/files/fields.hpp"
#include "kernels/files/file_list.hpp"
#include "kernels/files/text_lines.hpp"
#include "kernels/parquet/parquet_file.hpp"
#include "kernels/records/record_index.hpp"

#include <cmath>
#include <cstddef>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace troupe {

using TextRow = std::vector<std::string_view>;

/// The number of a field that is there without its text being read; of text
/// nothing.
inline std::optional<double> known_real(const TextRow&, size_t) {
  return {};
}
inline std::optional<double> known_real(const ParquetFile& row, size_t field) {
  return row.real(field);
}

/// A row group of a Parquet file.
struct TablePart {
  DataFile file;
  uint32_t group = 0;
  uint64_t rows = 0;
  uint64_t bytes = 0; ///< of the file
  FileState state;    ///< of the file, when its rows were counted
};

/// Reads the rows of csv or Parquet files, one file after another. What becomes
/// of them is up to a maker:
///
///   begin_file(row)   is told the first row of each file; whether that names
///                     its columns, and is no sample. Of a Parquet file it is
///                     told the names
///   uses(field)       whether a Parquet file's column is read; asked then
///   add(row)          takes a sample, a TextRow or a ParquetFile: fields by
///                     row[i], which is valid until the next one of a column
///   take_line(line)   may take one as it stands, before its fields are cut;
///                     false, and nothing taken, where it does not. A maker
///                     need not have this
class TableRows {
public:
  /// Errors: UsageError (sep=).
  TableRows(const DataSpec& spec, std::vector<DataFile> files);
  /// Of all files that the specification names, or of one row group alone.
  /// Errors: also those of list_files().
  TableRows(const DataSpec& spec, const std::shared_ptr<const FileStore>& store,
            const TablePart* part);

  /// Blank lines are no rows.
  /// Errors: InputError with file and line; what the maker throws.
  template <class Maker>
  void read(Maker& maker) {
    for (const auto& file : files_)
      is_parquet_ ? read_columns(file, maker) : read_lines(file, maker);
  }

  // --- of the row that is being read ----------------------------------------

  bool is_parquet() const { return is_parquet_; }
  /// The Parquet file that is being read.
  const ParquetFile& parquet() const { return *parquet_; }
  const std::string& path() const { return path_; }
  /// Throws InputError "FILE:LINE: what; advice", or with the row group.
  [[noreturn]] void refuse(const std::string& what,
                           const std::string& advice) const;
  /// Errors: InputError where it has not as many fields as the first one.
  void check_width(size_t fields, size_t width) const;
  /// Errors: InputError where a first row should name the columns, though
  /// nobody says so, and could as well be a sample.
  void check_names(const TextRow& first) const;
  /// `column` is its name as it is shown. Throws InputError.
  [[noreturn]] void refuse_number(std::string_view text,
                                  const std::string& column,
                                  const std::string& advice) const;

private:
  template <class Maker>
  void read_lines(const DataFile& file, Maker& maker) {
    lines_.emplace(file);
    path_ = lines_->path();
    bool first = true;
    std::string_view line;
    while (lines_->next(line)) {
      if (trimmed(line).empty())
        continue;
      if constexpr (requires { maker.take_line(line); })
        if (!first && maker.take_line(line))
          continue;
      const auto& row = fields_.split(line, *lines_);
      const bool names = first && maker.begin_file(row);
      first = false;
      if (!names)
        maker.add(row);
    }
  }

  template <class Maker>
  void read_columns(const DataFile& file, Maker& maker) {
    parquet_.emplace(file);
    path_ = file.name();
    const auto& names = parquet_->names();
    maker.begin_file(TextRow{names.begin(), names.end()});
    if (group_)
      parquet_->take_only(*group_);
    parquet_->choose([&](size_t field) { return maker.uses(field); });
    while (parquet_->next())
      maker.add(*parquet_);
  }

  std::vector<DataFile> files_;
  std::optional<uint32_t> group_; ///< that is read; none: all
  bool is_parquet_;
  bool is_said_;
  Fields fields_;
  std::string path_;
  std::optional<TextLines> lines_;
  std::optional<ParquetFile> parquet_;
};

/// A finite number as float32 holds it; else nothing.
inline std::optional<float> float32_of(const std::optional<double>& value) {
  if (!value || std::fabs(*value) > std::numeric_limits<float>::max())
    return std::nullopt;
  return static_cast<float>(*value);
}
std::optional<float> parse_float32(std::string_view text);

} // namespace troupe
