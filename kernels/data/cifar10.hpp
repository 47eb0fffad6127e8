#pragma once

#include "kernels/data/dataset.hpp"
#include "kernels/files/data_file.hpp"

namespace troupe {

/// Reads CIFAR-10's binary version from a folder, plain or .gz: records of a
/// label and 32 x 32 pixels as planes of red, green and blue; here
/// [32, 32, 3], pixels / 255. `split` is auto (the train files where present,
/// else the test file), train (data_batch_1.bin to data_batch_5.bin) or test
/// (test_batch.bin).
/// Errors: InputError (missing, cut within a record, label above 9, not a gzip
/// stream).
/// Source: Krizhevsky, "Learning Multiple Layers of Features from Tiny Images",
/// 2009.
Dataset read_cifar10(const DataFile& folder, const std::string& split);

} // namespace troupe
