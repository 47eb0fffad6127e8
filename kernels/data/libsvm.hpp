#pragma once

#include "kernels/data/dataset.hpp"

namespace troupe {

// libsvm:FILE, plain or .gz: a sample a line, `label index:value …`, indices
// ascending, `# …` a comment.
// Keys: base=auto|0|1, the first index (auto: 0 where the training part has
// it); ids=N, what a sample has room for (the longest of the training part).
// A sample: ids = index - base, features = their values; -1 and 0 fill up.

void check_libsvm(const DataSpec& spec);

/// Reads indices and labels as they stand in the file.
/// Source: the format of Chang and Lin, "LIBSVM", 2011.
/// Errors: InputError with file and line (no label, a label that is not a whole
/// number, no pair of index and value, indices that do not ascend or pass
/// 2^27, values that are not finite float32).
Dataset read_libsvm(const DataSpec& spec, const ReadLimits& limits);

/// Fits base, vocabulary (largest index + 1), room and labels: 0/1 or -1/+1
/// become LabelKind::binary, other whole numbers from 0 classes. Ids of the
/// evaluation part that the training part's range does not hold are left out.
/// Errors: InputError (labels below 0, or new in the evaluation part; a
/// sample of it with more ids than there is room for).
void fit_libsvm(const DataSpec& spec, Dataset& train, Dataset* eval);

} // namespace troupe
