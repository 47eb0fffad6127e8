#pragma once

#include "kernels/data/data_spec.hpp"
#include "kernels/files/fields.hpp"
#include "kernels/files/file_list.hpp"
#include "kernels/files/text_lines.hpp"

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace troupe {

using CsvRow = std::vector<std::string_view>;

/// Reads the rows of csv files, one file after another. What becomes of them is
/// up to a maker:
///
///   begin_file(row)   is told the first row of each file; whether that names
///                     its columns, and is no sample
///   add(row)          takes a sample
///   take_line(line)   may take one as it stands, before its fields are cut;
///                     false, and nothing taken, where it does not. A maker
///                     need not have this
class CsvRows {
public:
  /// Errors: UsageError (sep=).
  CsvRows(const DataSpec& spec, std::vector<DataFile> files);

  /// Blank lines are no rows.
  /// Errors: InputError with file and line; what the maker throws.
  template <class Maker>
  void read(Maker& maker) {
    for (const auto& file : files_) {
      lines_.emplace(file);
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
  }

  // --- of the row that is being read ----------------------------------------

  const TextLines& lines() const { return *lines_; }
  const std::string& path() const { return lines_->path(); }
  /// Throws InputError "FILE:LINE: what; advice".
  [[noreturn]] void refuse(const std::string& what,
                           const std::string& advice) const {
    lines_->refuse(what, advice);
  }
  /// Errors: InputError where it has not as many fields as the first one.
  void check_width(const CsvRow& row, size_t width) const;
  /// Errors: InputError where a first row should name the columns, though
  /// nobody says so, and could as well be a sample.
  void check_names(const CsvRow& first) const;
  /// `column` is its name as it is shown. Throws InputError.
  [[noreturn]] void refuse_number(std::string_view text,
                                  const std::string& column,
                                  const std::string& advice) const;

private:
  std::vector<DataFile> files_;
  bool is_said_;
  Fields fields_;
  std::optional<TextLines> lines_;
};

/// A finite number as float32 holds it; else nothing.
std::optional<float> parse_float32(std::string_view text);

} // namespace troupe
