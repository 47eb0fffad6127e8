#pragma once

#include "kernels/columns/fitted_columns.hpp"
#include "kernels/columns/value_index.hpp"
#include "kernels/data/dataset.hpp"

#include <vector>

namespace troupe {

// csv:FILE?columns=…: a table whose columns hold numbers, categories, dates
// and gaps. Reading keeps what depends on the training part as it is: NaN for
// a number that is missing, a number of its own for each text. fit_table then
// learns from the training part, and apply_columns brings any part to it.
// Keys besides those of csv: na=TEXT,… (what stands for a missing value).

class TableGroups;
struct TablePart;

/// The columns of a part as they were read.
struct TableColumns {
  std::vector<ColumnRule> rules;
  /// Of each column with a vocabulary its texts; ids are their numbers + 1,
  /// 0 a missing one; labels are their numbers.
  std::vector<ValueIndex> values;
  /// Where features and ids are that were left in their files; else null.
  std::shared_ptr<TableGroups> groups;
};

/// Errors: UsageError (columns=, na=, keys that columns= replaces).
void check_table(const DataSpec& spec);

/// The rules as the specification gives them, from their file where it names
/// one. Errors: UsageError, InputError.
std::vector<ColumnRule> column_rules_of(const DataSpec& spec);

/// The number of a text among those of a column, to which it is added where it
/// is new. Errors: InputError with `name` where these are too many.
int32_t add_value(const ColumnRule& rule, std::string_view text,
                  ValueIndex& values, const std::string& name);

/// The rules for a file with these columns: "*" stands for some.
std::vector<ColumnRule> spread_rules(const std::vector<ColumnRule>& rules,
                                     const std::vector<std::string>& names);

/// `part`: null for all rows. Errors: InputError with file, line and column.
Dataset read_table(const DataSpec& spec, const ReadLimits& limits,
                   const TablePart* part);

/// What the training part makes of its columns.
/// Errors: InputError (no label, one class alone, vocabularies that are too
/// large).
std::shared_ptr<FittedColumns> fit_columns(const DataSpec& spec,
                                           const Dataset& train);

/// Makes features, ids, labels and shape of what was read. `unlabelled`: with a
/// label that none of the classes is the part has none.
/// Errors: InputError (such a label, other columns).
void apply_columns(const std::shared_ptr<FittedColumns>& fitted, Dataset& part,
                   bool unlabelled);

} // namespace troupe
