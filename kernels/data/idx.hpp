#pragma once

#include "kernels/data/dataset.hpp"
#include "kernels/files/data_file.hpp"

#include <string>

namespace troupe {

/// Reads MNIST's IDX files from a folder, plain or .gz; pixels / 255.
/// `split` is auto (the train files where present, else the test files),
/// train or test. Every header field is checked against the file's length
/// before anything of that size is allocated.
/// Errors: InputError (missing, truncated, longer than its header says, wrong
/// magic, counts of the two files differ, label above 9, not a gzip stream).
/// Source: LeCun, Cortes, Burges, "The MNIST database of handwritten digits".
Dataset read_mnist(const DataFile& folder, const std::string& split);

} // namespace troupe
