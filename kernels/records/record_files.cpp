#include "kernels/records/record_files.hpp"

#include "kernels/base/error.hpp"
#include "kernels/records/decode_time.hpp"

#include <algorithm>
#include <deque>
#include <mutex>

namespace troupe {

namespace {

/// Files that are open at once; others are opened again.
constexpr size_t max_open = 256;

[[noreturn]] void refuse_short(const Record& record) {
  record.refuse("the file ends within a sample",
                "let its writer finish, then start again");
}

/// `firsts`: the first sample of each file, and how many there are.
size_t file_of(const std::vector<uint64_t>& firsts, uint64_t sample) {
  const auto after = std::upper_bound(firsts.begin(), firsts.end(), sample);
  return static_cast<size_t>(after - firsts.begin()) - 1;
}

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
  const auto file = file_of(firsts_, sample);
  return {file, indexes_[file][sample - firsts_[file]]};
}

void RecordFiles::read(uint64_t sample, void* row,
                       const SampleDraw& draw) const {
  const auto place = place_of(sample);
  if (stretch_ > 0)
    read_stretch(sample, place, row, draw);
  else
    read_alone(place, row, draw);
}

void RecordFiles::read_alone(const Place& place, void* row,
                             const SampleDraw& draw) const {
  const auto handle = handles_->of(place.file, files_[place.file],
                                   indexes_[place.file].state());
  thread_local std::vector<uint8_t> buffer;
  const auto record = read_record(*format_, *handle, place.record, buffer);
  const DecodeTimer decodes;
  format_->decode(record, row, draw);
}

RecordFiles::Stretch RecordFiles::stretch_of(uint64_t sample, uint32_t samples,
                                             uint64_t& end) const {
  const auto file = place_of(sample).file;
  const auto first = std::max(sample / samples * samples, firsts_[file]);
  const auto last =
    std::min(sample / samples * samples + samples, firsts_[file + 1]) - 1;
  const auto& index = indexes_[file];
  const auto& tail = index[last - firsts_[file]];
  end = tail.offset + tail.bytes + format_->check_bytes();
  return {file, index[first - firsts_[file]].offset, {}};
}

void RecordFiles::read_stretches(uint32_t samples, uint64_t memory) {
  if (format_->whole_files())
    return;
  stretch_ = samples;
  stretches_ = std::make_unique<HeldPieces<Stretch>>(memory);
}

uint64_t RecordFiles::stretch_bytes(uint32_t samples, uint64_t first,
                                    uint64_t last) const {
  uint64_t bytes = 0;
  for (auto sample = first; sample <= last;) {
    uint64_t end = 0;
    const auto stretch = stretch_of(sample, samples, end);
    bytes += end - std::min(end, stretch.begin);
    sample = std::min(sample / samples * samples + samples,
                      firsts_[stretch.file + 1]);
  }
  return bytes;
}

/// A stretch of several files is one of each.
void RecordFiles::read_stretch(uint64_t sample, const Place& place, void* row,
                               const SampleDraw& draw) const {
  uint64_t end = 0;
  auto wanted = stretch_of(sample, stretch_, end);
  const auto& at = place.record;
  const auto last = at.offset + at.bytes + format_->check_bytes();
  if (at.offset < wanted.begin || last > end)
    return read_alone(place, row, draw); // records of another order
  const auto handle = handles_->of(place.file, files_[place.file],
                                   indexes_[place.file].state());
  const auto key = stretch_key(sample, place.file);
  const auto stretch = stretches_->get(key, end - wanted.begin, [&] {
    auto fresh = std::make_shared<Stretch>(std::move(wanted));
    fresh->bytes.resize(end - fresh->begin);
    const auto got = handle->read_at(
      fresh->begin, std::as_writable_bytes(std::span{fresh->bytes}));
    fresh->bytes.resize(got);
    return fresh;
  });
  Record record{handle->name(), at.offset, {}, {}};
  if (last - stretch->begin > stretch->bytes.size())
    refuse_short(record);
  record.bytes = std::span{stretch->bytes}.subspan(at.offset - stretch->begin,
                                                   last - at.offset);
  format_->check(record);
  const DecodeTimer decodes;
  format_->decode(record, row, draw);
}

uint64_t RecordFiles::stored_bytes(uint64_t sample) const {
  return place_of(sample).record.bytes;
}

void RecordFiles::expect(uint64_t sample) const {
  if (!distant_) {
    const auto file = file_of(firsts_, sample);
    __builtin_prefetch(&indexes_[file][sample - firsts_[file]]);
    return;
  }
  const auto [file, place] = place_of(sample);
  if (!files_[file].is_elsewhere())
    return;
  const auto handle = handles_->of(file, files_[file], indexes_[file].state());
  auto begin = place.offset;
  auto end = begin + place.bytes + format_->check_bytes();
  if (stretch_ > 0 && stretches_->has(stretch_key(sample, file)))
    return;
  if (stretch_ > 0)
    begin = stretch_of(sample, stretch_, end).begin;
  handle->expect(begin, end - std::min(begin, end));
}

Record read_record(const RecordFormat& format, const OpenedFile& file,
                   const IndexedRecord& place, std::vector<uint8_t>& buffer) {
  buffer.resize(place.bytes + format.check_bytes());
  const auto got = file.read_at(place.offset,
                                std::as_writable_bytes(std::span{buffer}));
  Record record{file.name(), place.offset, buffer, {}};
  if (got < buffer.size())
    refuse_short(record);
  format.check(record);
  return record;
}

} // namespace troupe
