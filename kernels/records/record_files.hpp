#pragma once

#include "kernels/records/record_format.hpp"
#include "kernels/records/record_index.hpp"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace troupe {

/// The samples of many files, found through their indexes and read where they
/// lie: nothing but the indexes is held. Any thread may ask.
class RecordFiles {
public:
  /// `files` and `indexes` belong together. What begin() has to learn has been
  /// learnt by `format`.
  RecordFiles(std::shared_ptr<const RecordFormat> format, RowLayout layout,
              std::vector<DataFile> files, std::vector<FileIndex> indexes);
  ~RecordFiles();
  RecordFiles(RecordFiles&&) noexcept;

  uint64_t samples() const { return firsts_.back(); }
  const RowLayout& layout() const { return layout_; }

  /// Writes the features of a sample: [layout().values()] of its type.
  /// Errors: InputError with file and offset (damaged; the file has changed
  /// since its index was made; not readable).
  void read(uint64_t sample, void* row, const SampleDraw& draw) const;

  /// Says that a sample is read soon: of one that lies elsewhere the bytes are
  /// fetched meanwhile. Errors: as read(), but for damage.
  void expect(uint64_t sample) const;
  /// Bytes that a sample's record has in its file.
  uint64_t stored_bytes(uint64_t sample) const;
  bool is_elsewhere() const { return distant_; } ///< some of the files

private:
  struct Handles;
  /// A file, and which of its samples one of all is.
  struct Place {
    size_t file;
    IndexedRecord record;
  };
  Place place_of(uint64_t sample) const;

  std::shared_ptr<const RecordFormat> format_;
  RowLayout layout_;
  std::vector<DataFile> files_;
  std::vector<FileIndex> indexes_;
  std::vector<uint64_t> firsts_; ///< firsts_[f]: the first sample of file f
  bool distant_;
  std::unique_ptr<Handles> handles_;
};

/// Reads one record where an index says it is, and checks it. `buffer` is what
/// `Record::bytes` of the result points into.
Record read_record(const RecordFormat& format, const OpenedFile& file,
                   const IndexedRecord& place, std::vector<uint8_t>& buffer);

} // namespace troupe
