#pragma once

#include "kernels/data/dataset.hpp"

namespace troupe {

// Data sets of files of records: tfrecord, tar, jsonl, images.

void check_records(const DataSpec& spec);
/// Reads samples into memory where they fit into `limits.memory`; else finds
/// where they lie and leaves them there.
Dataset read_tfrecord(const DataSpec& spec, const ReadLimits& limits);
Dataset read_tar(const DataSpec& spec, const ReadLimits& limits);
Dataset read_json_lines(const DataSpec& spec, const ReadLimits& limits);
Dataset read_image_folder(const DataSpec& spec, const ReadLimits& limits);
void fit_records(const DataSpec& spec, Dataset& train, Dataset* eval);

} // namespace troupe
