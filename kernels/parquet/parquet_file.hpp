#pragma once

#include "kernels/files/data_file.hpp"
#include "kernels/parquet/arrow_column.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace troupe {

/// The rows of a Parquet file, from its start to its end, or those of a row
/// group; of the columns that
/// are wanted alone is anything read, and some tens of thousands of rows are
/// held. Apache Arrow reads them, in a module that is loaded when the first
/// such file is opened.
class ParquetFile {
public:
  /// Reads the columns' names and types.
  /// Errors: InputError (missing, not readable, no Parquet file; a program
  /// that was built without the module, and how to get it).
  explicit ParquetFile(const DataFile& file);
  ~ParquetFile();
  ParquetFile(const ParquetFile&) = delete;
  ParquetFile& operator=(const ParquetFile&) = delete;

  const std::vector<std::string>& names() const { return names_; }
  /// Whether a column's values have a text: those that hold lists or further
  /// columns have none.
  bool is_readable(size_t column) const;

  uint32_t groups() const; ///< row groups
  /// Errors: InputError (a damaged end of the file).
  parquet::GroupSize group_size(uint32_t group) const;
  /// Has one row group alone read, before the first row.
  void take_only(uint32_t group);

  /// Says which columns are wanted, before the first row.
  /// Errors: InputError (one that is not readable).
  void choose(const std::function<bool(size_t column)>& wanted);
  /// Goes to the next row; false at the end.
  /// Errors: InputError with the row group.
  bool next();

  // --- of the row -----------------------------------------------------------

  size_t size() const { return names_.size(); } ///< columns
  /// See ArrowColumn; of a column that was not chosen the values are missing.
  std::string_view operator[](size_t column) const;
  std::optional<double> real(size_t column) const;

  /// Throws InputError with the file and, within one, the row.
  [[noreturn]] void refuse(const std::string& what,
                           const std::string& advice) const;

private:
  struct State;
  std::vector<std::string> names_;
  std::unique_ptr<State> state_;
};

} // namespace troupe
