#include "kernels/checkpoint/read_checkpoint.hpp"

#include "kernels/base/crc32c.hpp"
#include "kernels/checkpoint/write_checkpoint.hpp"
#include "kernels/files/file_error.hpp"
#include "kernels/files/input_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <filesystem>
#include <optional>
#include <system_error>
#include <tuple>

namespace troupe {
namespace {

namespace fs = std::filesystem;

/// More than any manifest has (this is one of 400 GB of parameters): refused
/// before it is read. A value of JSON takes up to eight times its text.
constexpr uint64_t max_manifest_bytes = uint64_t{64} << 20;

/// What is in it is not known: that is no damage.
[[noreturn]] void fail_to_read(const std::string& path, int code) {
  throw FileError(path + ": cannot be read (" + reason_of(code)
                    + "); try again once it can, or move that checkpoint away",
                  code);
}

/// A link to what is not there is a mount that is late: no damage.
void require_reached(const std::string& path) {
  std::error_code failure;
  if (!fs::is_symlink(fs::symlink_status(path, failure))
      || fs::status(path, failure).type() != fs::file_type::not_found)
    return;
  throw FileError(path + ": leads to "
                    + fs::read_symlink(path, failure).string()
                    + ", which is not there; try again once it is, or move "
                      "that checkpoint away",
                  ENXIO);
}

std::string read_text(const std::string& path) {
  require_reached(path);
  InputFile file{path};
  if (file.size() > max_manifest_bytes)
    refuse_checkpoint(path, "it is longer than any manifest");
  std::string text(file.size(), '\0');
  file.read_all(std::as_writable_bytes(std::span{text}));
  return text;
}

int open_file(const std::string& path, uint64_t bytes) {
  require_reached(path);
  const int handle = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (handle < 0 && says_missing(errno))
    refuse_checkpoint(path, "there is no such file");
  if (handle < 0)
    fail_to_read(path, errno);
  struct stat found {};
  if (const int code = ::fstat(handle, &found) == 0 ? 0 : errno; code != 0) {
    ::close(handle);
    fail_to_read(path, code);
  }
  if (!S_ISREG(found.st_mode)
      || static_cast<uint64_t>(found.st_size) != bytes) {
    ::close(handle);
    refuse_checkpoint(path, "it has " + std::to_string(found.st_size)
                              + " bytes, not the " + std::to_string(bytes)
                              + " that were written");
  }
  return handle;
}

template <class Number>
bool parse_number(std::string_view text, Number& out) {
  const auto* end = text.data() + text.size();
  const auto [stop, failure] = std::from_chars(text.data(), end, out);
  return failure == std::errc{} && stop == end;
}

std::optional<FoundCheckpoint> parse_name(const std::string& name) {
  constexpr std::string_view prefix = "step-";
  if (!name.starts_with(prefix))
    return std::nullopt;
  FoundCheckpoint found;
  const std::string_view rest{name.data() + prefix.size(),
                              name.size() - prefix.size()};
  const auto point = rest.find('.');
  if (!parse_number(rest.substr(0, point), found.step)
      || (point != std::string_view::npos
          && !parse_number(rest.substr(point + 1), found.turn)))
    return std::nullopt;
  return found;
}

} // namespace

CheckpointReader::CheckpointReader(std::string folder)
  : folder_(std::move(folder)) {
  const auto path = folder_ + '/' + manifest_name;
  require_reached(folder_);
  manifest_ = manifest_from_json(read_text(path), path);
  try {
    for (const auto& file : manifest_.files)
      handles_[file.name] = open_file(folder_ + '/' + file.name, file.bytes);
  } catch (...) {
    for (auto [name, handle] : handles_)
      ::close(handle);
    throw;
  }
}

CheckpointReader::~CheckpointReader() {
  for (auto [name, handle] : handles_)
    ::close(handle);
}

void CheckpointReader::read_at(const std::string& file, uint64_t offset,
                               std::span<std::byte> out) const {
  const auto handle = handles_.at(file);
  while (!out.empty()) {
    const auto got = ::pread(handle, out.data(), out.size(),
                             static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR)
      continue;
    if (got < 0)
      fail_to_read(folder_ + '/' + file, errno);
    if (got == 0)
      refuse_checkpoint(folder_ + '/' + file, "it was cut while it was read");
    offset += static_cast<uint64_t>(got);
    out = out.subspan(static_cast<size_t>(got));
  }
}

void CheckpointReader::read(const CheckpointTensor& tensor, uint64_t first,
                            std::span<std::byte> out) const {
  if (first > tensor.bytes || out.size() > tensor.bytes - first)
    throw InputError(folder_ + ": tensor " + tensor.name + " has "
                     + std::to_string(tensor.bytes)
                     + " bytes, fewer than the model needs");
  read_at(tensor.file, tensor.offset + first, out);
}

void CheckpointReader::read(const std::string& tensor, uint64_t first_element,
                            std::span<float> out) const {
  const auto* known = manifest_.find(tensor);
  if (known == nullptr || known->dtype != "F32")
    throw InputError(folder_ + ": has no tensor " + tensor
                     + " of float32; it is of another model or optimizer");
  read(*known, first_element * sizeof(float), std::as_writable_bytes(out));
}

uint32_t CheckpointReader::digest(const std::string& file, uint64_t offset,
                                  uint64_t bytes) const {
  std::vector<std::byte> run(
    static_cast<size_t>(std::min<uint64_t>(bytes, uint64_t{1} << 20)));
  uint32_t sum = 0;
  while (bytes > 0) {
    const auto size = std::min<uint64_t>(bytes, run.size());
    read_at(file, offset, std::span{run}.first(size));
    sum = crc32c(sum, run.data(), size);
    offset += size;
    bytes -= size;
  }
  return sum;
}

std::vector<std::string> CheckpointReader::damages() const {
  std::vector<std::string> found;
  const auto look = [&](const std::string& what, const std::string& file,
                        uint64_t offset, uint64_t bytes, uint32_t wanted) {
    try {
      if (digest(file, offset, bytes) != wanted)
        found.push_back(folder_ + '/' + file + ": " + what
                        + " is not what was written");
    } catch (const FileError&) {
      throw;
    } catch (const InputError& failure) {
      found.push_back(what + ": " + failure.what());
    }
  };
  for (const auto& file : manifest_.files)
    look("its header", file.name, 0, file.data, file.header_crc32c);
  for (const auto& tensor : manifest_.tensors)
    look("tensor " + tensor.name, tensor.file, tensor.offset, tensor.bytes,
         tensor.crc32c);
  return found;
}

std::vector<FoundCheckpoint> find_checkpoints(const std::string& dir) {
  std::vector<FoundCheckpoint> found;
  std::error_code failure;
  if (!fs::exists(dir, failure) && !failure)
    return found;
  for (fs::directory_iterator entry{dir, failure}, end;
       !failure && entry != end; entry.increment(failure))
    if (auto one = parse_name(entry->path().filename().string())) {
      one->folder = entry->path().string();
      found.push_back(std::move(*one));
    }
  if (failure)
    throw FileError(dir + ": cannot be read (" + failure.message()
                      + "); name a folder of checkpoints",
                    failure.value());
  std::sort(found.begin(), found.end(), [](const auto& a, const auto& b) {
    return std::tie(a.step, a.turn) > std::tie(b.step, b.turn);
  });
  return found;
}

std::unique_ptr<CheckpointReader>
open_newest(const std::string& dir, std::vector<DamagedCheckpoint>& damaged) {
  for (const auto& found : find_checkpoints(dir)) {
    try {
      auto reader = std::make_unique<CheckpointReader>(found.folder);
      const auto damages = reader->damages();
      if (damages.empty())
        return reader;
      damaged.push_back({found.folder, damages.front()});
    } catch (const FileError& failure) {
      if (!says_missing(failure.code()))
        throw;
      damaged.push_back({found.folder, failure.what()});
    } catch (const InputError& failure) {
      damaged.push_back({found.folder, failure.what()});
    }
  }
  return nullptr;
}

} // namespace troupe
