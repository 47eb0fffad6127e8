#pragma once

#include "kernels/data/dataset.hpp"

namespace troupe {

// csv:FILE, plain or .gz: numbers in columns, one of them the label.
// Keys: header=true|false; label=NAME|INDEX (from 0; the last column);
// sep=CHARACTER, tab, space or comma; task=classes|regression;
// scale=standard; columns=…, with which columns hold other things
// (table_data.hpp).

/// Errors: UsageError (a name without a header, a separator that is none).
void check_csv(const DataSpec& spec);

/// Errors: InputError with file, line and column (fields missing or too many,
/// not a finite float32, an empty field, no such label column).
Dataset read_csv(const DataSpec& spec, const ReadLimits& limits);

struct TablePart;
/// The rows of one row group of a Parquet file as read_csv holds them; null:
/// all rows. Errors: those of read_csv.
Dataset read_table_part(const DataSpec& spec, const ReadLimits& limits,
                        const TablePart* part);

/// Fits classes to the training part; of data without columns=.
/// Errors: InputError (columns of other names or number, labels that training
/// lacks).
void fit_csv(const DataSpec& spec, Dataset& train, Dataset* eval);

} // namespace troupe
