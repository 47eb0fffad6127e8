#pragma once

#include "kernels/columns/column_survey.hpp"
#include "kernels/data/data_spec.hpp"
#include "kernels/files/file_store.hpp"

#include <memory>
#include <string>
#include <vector>

namespace troupe {

/// What `troupe data info` found in a table, and proposes to make of it.
struct TableSurvey {
  uint64_t rows = 0;
  std::vector<ColumnSurvey> columns;
  std::vector<ColumnRule> proposal; ///< for each column
  std::string label;                ///< the column that is to be learnt
  /// Why that one: label= or columns= says so; its name is one that labels
  /// have; it is the last one that columns= does not name.
  enum class LabelBy { said, name, place };
  LabelBy label_by = LabelBy::said;
  struct Stray {
    std::string column;
    std::string text;
  };
  /// Texts in columns of numbers, which the proposal takes for missing ones.
  std::vector<Stray> strays;
  /// The specification with the proposal: what to read it by.
  std::string data;
  std::string model; ///< that goes with it
  /// Why neither is there, and what to do; empty: they are.
  std::string trouble;
};

/// As parse_data_spec, but that columns= need not name all of them, nor a
/// label, and na= needs no columns=. Errors: UsageError.
DataSpec parse_surveyed_spec(const std::string& text);

/// Looks at a table in one pass. Keys of the specification that say how to
/// read (sep, header, na) hold where they are given, and are found out where
/// they are not; so are the label, and the columns that columns= names.
/// Errors: UsageError where it is no csv; InputError with file and line.
TableSurvey survey_table(const DataSpec& spec,
                         const std::shared_ptr<const FileStore>& store = {});

} // namespace troupe
