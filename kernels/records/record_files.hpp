#pragma once

#include "kernels/records/held_pieces.hpp"
#include "kernels/records/record_format.hpp"
#include "kernels/records/record_index.hpp"

#include <algorithm>
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

  /// Has samples read by stretches of so many that lie one after another, of
  /// which up to `memory` bytes are kept. Not while others read.
  void read_stretches(uint32_t samples, uint64_t memory);
  /// Bytes that stretches of that size take in which samples [first, last] lie.
  uint64_t stretch_bytes(uint32_t samples, uint64_t first, uint64_t last) const;

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
  /// Bytes of a file, and where they begin there.
  struct Stretch {
    size_t file;
    uint64_t begin;
    std::vector<uint8_t> bytes;
  };
  Place place_of(uint64_t sample) const;
  uint64_t stretch_key(uint64_t sample, size_t file) const {
    return std::max(sample / stretch_ * stretch_, firsts_[file]);
  }
  /// Without its bytes; of the file that the sample is in.
  Stretch stretch_of(uint64_t sample, uint32_t samples, uint64_t& end) const;
  void read_alone(const Place& place, void* row, const SampleDraw& draw) const;
  void read_stretch(uint64_t sample, const Place& place, void* row,
                    const SampleDraw& draw) const;

  std::shared_ptr<const RecordFormat> format_;
  RowLayout layout_;
  std::vector<DataFile> files_;
  std::vector<FileIndex> indexes_;
  std::vector<uint64_t> firsts_; ///< firsts_[f]: the first sample of file f
  bool distant_;
  std::unique_ptr<Handles> handles_;
  uint32_t stretch_ = 0; ///< samples; 0: each is read alone
  std::unique_ptr<HeldPieces<Stretch>> stretches_;
};

/// Reads one record where an index says it is, and checks it. `buffer` is what
/// `Record::bytes` of the result points into.
Record read_record(const RecordFormat& format, const OpenedFile& file,
                   const IndexedRecord& place, std::vector<uint8_t>& buffer);

} // namespace troupe
