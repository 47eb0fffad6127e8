#pragma once

#include "kernels/data/data_spec.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace troupe {

// Keys of csv that say how its lines are read.

/// Whether the first line names the columns: header=true|false.
bool csv_has_header(const DataSpec& spec);

/// sep=CHARACTER, tab, space or comma. Errors: UsageError.
char csv_separator(const DataSpec& spec);

/// Whether a label is an index of a column, from 0.
bool is_column_index(const std::string& label);

/// Whether a line that should name columns could as well be a sample.
bool is_doubtful_header(const std::vector<std::string_view>& fields);
constexpr auto doubtful_header = "holds numbers alone, so it may be a sample "
                                 "and not the columns' names";
constexpr auto doubtful_header_advice = "add header=false where it is one, "
                                        "header=true where it is not";

} // namespace troupe
