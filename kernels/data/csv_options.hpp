#pragma once

#include "kernels/data/data_spec.hpp"

#include <string>

namespace troupe {

// Keys of csv that say how its lines are read.

/// Whether the first line names the columns: header=true|false.
bool csv_has_header(const DataSpec& spec);

/// sep=CHARACTER, tab, space or comma. Errors: UsageError.
char csv_separator(const DataSpec& spec);

/// Whether a label is an index of a column, from 0.
bool is_column_index(const std::string& label);

} // namespace troupe
