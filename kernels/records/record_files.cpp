#include "kernels/records/record_files.hpp"

#include "kernels/base/error.hpp"
#include "kernels/files/input_file.hpp"

#include <algorithm>
#include <deque>
#include <mutex>

namespace troupe {

namespace {

/// Files that are open at once; others are opened again.
constexpr size_t max_open = 256;

} // namespace

/// Files that are open; a thread that uses one keeps it.
struct RecordFiles::Handles {
  std::mutex mutex;
  std::vector<std::shared_ptr<const InputFile>> open; ///< by file
  std::deque<size_t> order; ///< that are open, the oldest first

  std::shared_ptr<const InputFile> of(size_t i, const std::string& path,
                                      const FileState& state) {
    {
      const std::lock_guard guard{mutex};
      if (open[i])
        return open[i];
    }
    auto fresh = std::make_shared<const InputFile>(path);
    if (FileState{fresh->size(), fresh->written_ns()} != state)
      throw InputError(path + ": changed since its samples were counted; let "
                       + "its writer finish, then start again");
    const std::lock_guard guard{mutex};
    if (!open[i]) {
      if (order.size() >= max_open) {
        open[order.front()].reset();
        order.pop_front();
      }
      open[i] = fresh;
      order.push_back(i);
    }
    return fresh;
  }
};

RecordFiles::RecordFiles(std::shared_ptr<const RecordFormat> format,
                         RowLayout layout, std::vector<std::string> files,
                         std::vector<FileIndex> indexes)
  : format_(std::move(format)),
    layout_(std::move(layout)),
    files_(std::move(files)),
    indexes_(std::move(indexes)),
    handles_(std::make_unique<Handles>()) {
  handles_->open.resize(files_.size());
  firsts_.reserve(files_.size() + 1);
  firsts_.push_back(0);
  for (const auto& index : indexes_)
    firsts_.push_back(firsts_.back() + index.size());
}

RecordFiles::~RecordFiles() = default;
RecordFiles::RecordFiles(RecordFiles&&) noexcept = default;

void RecordFiles::read(uint64_t sample, void* row) const {
  const auto after = std::upper_bound(firsts_.begin(), firsts_.end(), sample);
  const auto file = static_cast<size_t>(after - firsts_.begin()) - 1;
  const auto& index = indexes_[file];
  const auto handle = handles_->of(file, files_[file], index.state());
  thread_local std::vector<uint8_t> buffer;
  const auto record = read_record(*format_, *handle,
                                  index[sample - firsts_[file]], buffer);
  format_->decode(record, row);
}

Record read_record(const RecordFormat& format, const InputFile& file,
                   const IndexedRecord& place, std::vector<uint8_t>& buffer) {
  buffer.resize(place.bytes + format.check_bytes());
  const auto got = file.read_at(place.offset,
                                std::as_writable_bytes(std::span{buffer}));
  Record record{file.path(), place.offset, buffer, {}};
  if (got < buffer.size())
    record.refuse("the file ends within a sample",
                  "let its writer finish, then start again");
  format.check(record);
  return record;
}

} // namespace troupe
