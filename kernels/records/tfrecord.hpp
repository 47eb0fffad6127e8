#pragma once

#include "kernels/records/record_format.hpp"

#include <string>
#include <string_view>

namespace troupe {

/// The records of a TFRecord file: a length of 8 bytes, its masked CRC-32C, the
/// bytes, theirs. Both sums are checked.
/// Source: TensorFlow's guide "TFRecord and tf.train.Example".
std::unique_ptr<RecordScan> scan_tfrecord(const DataFile& file);

constexpr uint64_t tfrecord_check_bytes = 4;

/// Adds a record to what a file holds.
void append_tfrecord(std::string_view bytes, std::string& out);

/// Checks a record read again with the four bytes that follow it, and takes
/// them off.
void check_tfrecord(Record& record);

} // namespace troupe
