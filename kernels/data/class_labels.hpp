#pragma once

#include "kernels/data/dataset.hpp"
#include "kernels/files/text_lines.hpp"

namespace troupe {

constexpr int32_t largest_class = 65'535;

/// A class index as written in a file; -1 is let through, for data sets of two
/// classes.
/// Errors: InputError with file and line (not whole, below -1, above 65535).
int32_t class_label(std::string_view text, const TextLines& lines);

/// Makes the largest label of the training part the last class.
/// Errors: InputError (a label below 0; one of the evaluation part above those
/// of the training part).
void fit_classes(Dataset& train, Dataset* eval);

} // namespace troupe
