#pragma once

#include "kernels/files/data_file.hpp"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace troupe {

/// A place in a file, and the label of the sample there: 16 bytes a sample.
struct IndexedRecord {
  uint64_t offset = 0;
  uint32_t bytes = 0;
  uint32_t label = 0; ///< a class, or the bits of a float32
};
static_assert(sizeof(IndexedRecord) == 16);

/// The state of a file when its index was made.
struct FileState {
  uint64_t bytes = 0;
  int64_t version = 0; ///< OpenedFile::version()

  bool operator==(const FileState&) const = default;
};
FileState state_of(const DataFile& file);

/// Where the records of one file lie. Kept in a file of its own, it is mapped:
/// processes of a host share its memory.
class FileIndex {
public:
  FileIndex() = default;
  FileIndex(FileState state, std::vector<IndexedRecord> records);

  uint64_t size() const { return size_; }
  const IndexedRecord& operator[](uint64_t i) const { return records_[i]; }
  const FileState& state() const { return state_; }

private:
  friend std::optional<FileIndex>
  load_index(const std::string&, const DataFile&, const std::string&);
  FileState state_;
  std::shared_ptr<const void> owner_;
  const IndexedRecord* records_ = nullptr;
  uint64_t size_ = 0;
};

/// The index of a file as it was kept in `folder`, made under the same `rule`
/// (the format and its keys), where it is whole and the file has not changed
/// in length or time, or an object in its tag, since. Else nothing, as for an
/// object without a tag.
std::optional<FileIndex> load_index(const std::string& folder,
                                    const DataFile& file,
                                    const std::string& rule);

/// Keeps an index, whole or not at all; returns it as load_index would, mapped.
/// Where it cannot be kept it is returned as it is: it will be made again.
FileIndex keep_index(const std::string& folder, const DataFile& file,
                     const std::string& rule, FileIndex index);

/// TROUPE_CACHE, else XDG_CACHE_HOME/troupe, else ~/.cache/troupe; in it
/// "index". Empty where none of them is set.
std::string index_folder();

} // namespace troupe
