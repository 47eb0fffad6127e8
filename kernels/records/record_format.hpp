#pragma once

#include "kernels/files/data_file.hpp"
#include "kernels/graph/sample_shape.hpp"
#include "kernels/records/augment.hpp"

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace troupe {

/// One sample's bytes in a file, from which its features are decoded.
struct Record {
  std::string_view path;
  uint64_t offset = 0; ///< of `bytes` in the unpacked file
  std::span<const uint8_t> bytes;
  std::string_view label; ///< what lies beside the bytes, of formats that do so

  /// Throws InputError with file and offset.
  [[noreturn]] void refuse(const std::string& what,
                           const std::string& advice) const;
};

/// Finds the records of one file, from its start to its end.
class RecordScan {
public:
  virtual ~RecordScan() = default;
  /// False at the end. What `out` points at is valid until the next call.
  /// Errors: InputError with file and offset.
  virtual bool next(Record& out) = 0;
};

/// Where and how the features of a sample are written down.
struct RowLayout {
  Shape shape;           ///< the extents of a sample
  bool is_bytes = false; ///< uint8, to be multiplied by `scale`; else float32
  float scale = 1.0f;

  uint64_t values() const { return elements(shape); }
  uint64_t bytes() const { return values() * (is_bytes ? 1 : sizeof(float)); }
};

/// How files of one kind hold samples. After begin() any number of threads may
/// use it at once.
class RecordFormat {
public:
  virtual ~RecordFormat() = default;

  virtual std::unique_ptr<RecordScan> scan(const DataFile& file) const = 0;
  /// Learns from the first record what all have to be like.
  virtual RowLayout begin(const Record& first) = 0;
  /// The label as a number; who asks checks its range.
  virtual double label(const Record& record) const = 0;
  /// Writes the features of a record: [layout.values()] of its type.
  /// Errors: InputError with file and offset where it is not like the first.
  /// What `draw` says matters to images that are augmented.
  virtual void decode(const Record& record, void* row,
                      const SampleDraw& draw) const = 0;

  /// Whether a file is one record: then it need not be read to be found, and
  /// its label follows from its path.
  virtual bool whole_files() const { return false; }
  /// Bytes that follow a record's in the file and are needed to check it.
  virtual uint64_t check_bytes() const { return 0; }
  /// Checks what was read again: `record.bytes` with check_bytes() after them.
  /// Leaves the record's bytes alone.
  virtual void check(Record&) const {}
};

} // namespace troupe
