#pragma once

#include "kernels/data/dataset.hpp"

namespace troupe {

// text:FILE, plain or .gz. Keys: level=char|byte.
// char: UTF-8; the vocabulary is the sorted characters (code points) that occur
// in the training part, which are kept with weights. byte: 256 ids.

void check_text(const DataSpec& spec);

/// Reads code points or bytes.
/// Errors: InputError with file and byte (no UTF-8, more than 2^31 - 1
/// characters, an empty file).
Dataset read_text(const DataSpec& spec, const ReadLimits& limits);

/// Numbers the characters by the training part. Those of the evaluation part
/// that do not occur there are left out.
/// Errors: InputError when those are more than one in a hundred.
void fit_text(const DataSpec& spec, Dataset& train, Dataset* eval);

/// Numbers the characters as weights know them, and leaves out others.
/// Errors: InputError when those are more than one in a hundred.
void number_text(const DataSpec& spec,
                 const std::shared_ptr<FittedColumns>& kept, Dataset& part);

} // namespace troupe
