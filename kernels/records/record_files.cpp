#include "kernels/records/record_files.hpp"

#include "kernels/base/error.hpp"

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
  std::vector<std::shared_ptr<const OpenedFile>> open; ///< by file
  std::deque<size_t> order; ///< that are open, the oldest first

  std::shared_ptr<const OpenedFile> of(size_t i, const DataFile& file,
                                       const FileState& state) {
    {
      const std::lock_guard guard{mutex};
      if (open[i])
        return open[i];
    }
    auto fresh = file.open();
    if (FileState{fresh->size(), fresh->version()} != state)
      throw InputError(fresh->name()
                       + ": changed since its samples were counted; let "
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
                         RowLayout layout, std::vector<DataFile> files,
                         std::vector<FileIndex> indexes)
  : format_(std::move(format)),
    layout_(std::move(layout)),
    files_(std::move(files)),
    indexes_(std::move(indexes)),
    distant_(std::any_of(files_.begin(), files_.end(),
                         [](const auto& file) { return file.is_elsewhere(); })),
    handles_(std::make_unique<Handles>()) {
  handles_->open.resize(files_.size());
  firsts_.reserve(files_.size() + 1);
  firsts_.push_back(0);
  for (const auto& index : indexes_)
    firsts_.push_back(firsts_.back() + index.size());
}

RecordFiles::~RecordFiles() = default;
RecordFiles::RecordFiles(RecordFiles&&) noexcept = default;

RecordFiles::Place RecordFiles::place_of(uint64_t sample) const {
  const auto after = std::upper_bound(firsts_.begin(), firsts_.end(), sample);
  const auto file = static_cast<size_t>(after - firsts_.begin()) - 1;
  return {file, indexes_[file][sample - firsts_[file]]};
}

void RecordFiles::read(uint64_t sample, void* row,
                       const SampleDraw& draw) const {
  const auto [file, place] = place_of(sample);
  const auto handle = handles_->of(file, files_[file], indexes_[file].state());
  thread_local std::vector<uint8_t> buffer;
  const auto record = read_record(*format_, *handle, place, buffer);
  format_->decode(record, row, draw);
}

uint64_t RecordFiles::stored_bytes(uint64_t sample) const {
  return place_of(sample).record.bytes;
}

void RecordFiles::expect(uint64_t sample) const {
  if (!distant_)
    return;
  const auto [file, place] = place_of(sample);
  if (!files_[file].is_elsewhere())
    return;
  const auto handle = handles_->of(file, files_[file], indexes_[file].state());
  handle->expect(place.offset, place.bytes + format_->check_bytes());
}

Record read_record(const RecordFormat& format, const OpenedFile& file,
                   const IndexedRecord& place, std::vector<uint8_t>& buffer) {
  buffer.resize(place.bytes + format.check_bytes());
  const auto got = file.read_at(place.offset,
                                std::as_writable_bytes(std::span{buffer}));
  Record record{file.name(), place.offset, buffer, {}};
  if (got < buffer.size())
    record.refuse("the file ends within a sample",
                  "let its writer finish, then start again");
  format.check(record);
  return record;
}

} // namespace troupe
