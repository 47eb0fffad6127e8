#include "kernels/checkpoint/write_checkpoint.hpp"

#include "kernels/base/crc32c.hpp"
#include "kernels/files/file_error.hpp"
#include "kernels/files/safetensors.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <map>
#include <system_error>

namespace troupe {
namespace {

namespace fs = std::filesystem;

/// Names that are no checkpoint's.
constexpr const char* unfinished = ".new-";
constexpr const char* leaving = ".old-";
constexpr const char* damaged = "damaged-";

/// Bytes on their way into one file, and their digest.
class OpenFile {
public:
  /// `dir`: what errors name.
  OpenFile(FileSystem& files, const std::string& path, const std::string& dir)
    : files_(files), path_(dir) {
    handle_ = files_.open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC,
                          0666);
    if (handle_ < 0)
      fail_to_write(path_, errno);
  }
  ~OpenFile() {
    if (handle_ >= 0)
      files_.close(handle_);
  }
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;

  /// Returns `digest` continued over the bytes.
  uint32_t write(std::span<const std::byte> bytes, uint32_t digest) {
    // Digest and copy go over a run while it is in the cache.
    constexpr size_t run = size_t{256} << 10;
    while (!bytes.empty()) {
      const auto size = std::min(bytes.size(), run);
      const auto done = files_.write(handle_, bytes.data(), size);
      if (done < 0 && errno == EINTR)
        continue;
      if (done <= 0)
        fail_to_write(path_, done < 0 ? errno : ENOSPC);
      digest = crc32c(digest, bytes.data(), static_cast<size_t>(done));
      bytes = bytes.subspan(static_cast<size_t>(done));
      written_ += static_cast<uint64_t>(done);
    }
    return digest;
  }

  uint64_t written() const { return written_; }

  void finish() {
    if (files_.fsync(handle_) != 0)
      fail_to_write(path_, errno);
    const auto closed = files_.close(std::exchange(handle_, -1));
    if (closed != 0)
      fail_to_write(path_, errno);
  }

private:
  FileSystem& files_;
  std::string path_;
  int handle_ = -1;
  uint64_t written_ = 0;
};

void sync_folder(FileSystem& files, const std::string& path,
                 const std::string& dir) {
  const int handle = files.open(path.c_str(),
                                O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
  if (handle < 0)
    fail_to_write(dir, errno);
  // Some file systems cannot sync a folder and say so with EINVAL.
  const int code = files.fsync(handle) == 0 ? 0 : errno;
  files.close(handle);
  if (code != 0 && code != EINVAL)
    fail_to_write(dir, code);
}

void write_file(FileSystem& files, const std::string& folder,
                const std::string& dir, const FileToWrite& file,
                CheckpointManifest& manifest) {
  std::vector<SafetensorsEntry> entries;
  std::map<std::string, std::string> metadata{file.metadata.begin(),
                                              file.metadata.end()};
  for (const auto& tensor : file.tensors) {
    uint64_t bytes = 0;
    for (auto part : tensor.parts)
      bytes += part.size();
    entries.push_back({tensor.name, tensor.dtype, tensor.shape, bytes});
  }
  const auto header = safetensors_header(entries, metadata);
  OpenFile out{files, folder + '/' + file.name, dir};
  CheckpointFile known{file.name, 0, header.size(), 0};
  known.header_crc32c = out.write(std::as_bytes(std::span{header}), 0);
  for (const auto& tensor : file.tensors) {
    CheckpointTensor place{
      tensor.name, tensor.dtype, tensor.shape, file.name, out.written(), 0, 0};
    for (auto part : tensor.parts)
      place.crc32c = out.write(part, place.crc32c);
    place.bytes = out.written() - place.offset;
    manifest.tensors.push_back(std::move(place));
  }
  known.bytes = out.written();
  manifest.files.push_back(std::move(known));
  out.finish();
}

/// A folder that is removed again unless it became a checkpoint.
class NewFolder {
public:
  NewFolder(FileSystem& files, std::string path, const std::string& dir)
    : files_(files), path_(std::move(path)), dir_(dir) {
    if (files_.mkdir(path_.c_str(), 0777) == 0)
      return;
    // Left by a process of this number, or by a removal that failed.
    const int code = errno;
    if (code != EEXIST || !remove_checkpoint(files_, path_)
        || files_.mkdir(path_.c_str(), 0777) != 0)
      fail_to_write(dir_, code);
  }
  ~NewFolder() {
    if (!done_)
      remove_checkpoint(files_, path_);
  }
  NewFolder(const NewFolder&) = delete;
  NewFolder& operator=(const NewFolder&) = delete;

  const std::string& path() const { return path_; }

  void rename_to(const std::string& target) {
    if (files_.rename(path_.c_str(), target.c_str()) != 0)
      fail_to_write(dir_, errno);
    done_ = true;
  }

private:
  FileSystem& files_;
  std::string path_;
  const std::string& dir_;
  bool done_ = false;
};

std::string free_name(const std::string& dir, uint64_t step) {
  std::error_code ignored;
  for (uint32_t turn = 0;; ++turn) {
    auto path = dir + '/' + checkpoint_name(step, turn);
    if (!fs::exists(path, ignored))
      return path;
  }
}

} // namespace

std::string checkpoint_name(uint64_t step, uint32_t turn) {
  char text[64];
  std::snprintf(text, sizeof text, "step-%012llu",
                static_cast<unsigned long long>(step));
  return turn == 0 ? text : std::string{text} + '.' + std::to_string(turn);
}

std::string write_checkpoint(FileSystem& files, const std::string& dir,
                             const CheckpointToWrite& checkpoint) {
  const auto target = free_name(dir, checkpoint.manifest.step);
  const auto name = fs::path{target}.filename().string();
  NewFolder folder{
    files, dir + '/' + unfinished + name + '-' + std::to_string(::getpid()),
    dir};
  auto manifest = checkpoint.manifest;
  for (const auto& file : checkpoint.files)
    write_file(files, folder.path(), dir, file, manifest);
  OpenFile last{files, folder.path() + '/' + manifest_name, dir};
  const auto text = to_json(manifest);
  last.write(std::as_bytes(std::span{text}), 0);
  last.finish();
  sync_folder(files, folder.path(), dir);
  folder.rename_to(target);
  sync_folder(files, dir, dir);
  return target;
}

bool remove_checkpoint(FileSystem& files, const std::string& folder) {
  const fs::path path{folder};
  const auto name = path.filename().string();
  auto at = folder;
  if (!name.starts_with(leaving) && !name.starts_with(unfinished)) {
    const auto aside = path.parent_path()
                       / (leaving + name + '-' + std::to_string(::getpid()));
    if (files.rename(folder.c_str(), aside.c_str()) != 0)
      return false;
    at = aside.string();
  }
  std::error_code failure;
  // Somebody else's link: what it points to is no checkpoint of ours.
  if (fs::is_symlink(fs::symlink_status(at, failure)))
    return files.unlink(at.c_str()) == 0;
  std::vector<std::string> inside;
  for (fs::directory_iterator entry{at, failure}, end; !failure && entry != end;
       entry.increment(failure))
    inside.push_back(entry->path().string());
  bool gone = !failure;
  for (const auto& file : inside)
    gone = files.unlink(file.c_str()) == 0 && gone;
  return files.rmdir(at.c_str()) == 0 && gone;
}

void remove_leftovers(FileSystem& files, const std::string& dir) {
  std::error_code failure;
  std::vector<std::string> found;
  for (fs::directory_iterator entry{dir, failure}, end;
       !failure && entry != end; entry.increment(failure)) {
    const auto name = entry->path().filename().string();
    if (name.starts_with(unfinished) || name.starts_with(leaving))
      found.push_back(entry->path().string());
  }
  for (const auto& folder : found)
    remove_checkpoint(files, folder);
}

std::string set_aside(FileSystem& files, const std::string& folder) {
  const fs::path path{folder};
  const auto wanted = path.parent_path() / (damaged + path.filename().string());
  auto name = wanted.string();
  std::error_code ignored;
  for (uint32_t turn = 1; fs::exists(name, ignored); ++turn)
    name = wanted.string() + '.' + std::to_string(turn);
  return files.rename(folder.c_str(), name.c_str()) == 0 ? name : "";
}

CheckpointLock::CheckpointLock(const std::string& dir) : lock_(dir) {
  if (!lock_.held())
    throw InputError(dir + ": another run is writing checkpoints there, "
                     + lock_.holder()
                     + "; wait for its end, or name another folder");
}

} // namespace troupe
