#include "kernels/files/atomic_file.hpp"

#include "kernels/files/file_error.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <system_error>

namespace troupe {

namespace {

namespace fs = std::filesystem;

/// A file that is removed again unless it was renamed.
class TemporaryFile {
public:
  TemporaryFile(const std::string& path, const fs::path& target) : path_(path) {
    // Another number where one was left behind by a process that was killed.
    for (int number = 0;; ++number) {
      name_ = with_suffix(target, ".tmp-" + std::to_string(::getpid()) + "-"
                                    + std::to_string(number))
                .string();
      handle_ = ::open(name_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC,
                       0666);
      if (handle_ >= 0)
        return;
      if (errno != EEXIST || number == 1000)
        fail_to_write(path_, errno);
    }
  }

  ~TemporaryFile() {
    if (handle_ >= 0)
      ::close(handle_);
    if (!name_.empty())
      ::unlink(name_.c_str());
  }

  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;

  void write(std::span<const std::byte> bytes) {
    constexpr size_t max_per_call = size_t{1} << 30;
    while (!bytes.empty()) {
      const auto done = ::write(handle_, bytes.data(),
                                std::min(bytes.size(), max_per_call));
      if (done >= 0)
        bytes = bytes.subspan(static_cast<size_t>(done));
      else if (errno != EINTR)
        fail_to_write(path_, errno);
    }
  }

  void rename_to(const fs::path& target) {
    if (::fsync(handle_) != 0)
      fail_to_write(path_, errno);
    const auto closed = ::close(handle_);
    handle_ = -1;
    if (closed != 0 || ::rename(name_.c_str(), target.c_str()) != 0)
      fail_to_write(path_, errno);
    name_.clear();
  }

private:
  const std::string& path_;
  std::string name_;
  int handle_ = -1;
};

void sync_folder(const std::string& path, const fs::path& target) {
  const auto folder = folder_of(target);
  const int handle = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (handle < 0)
    fail_to_write(path, errno);
  // Some file systems cannot sync a folder and say so with EINVAL.
  const int code = ::fsync(handle) == 0 ? 0 : errno;
  ::close(handle);
  if (code != 0 && code != EINVAL)
    fail_to_write(path, code);
}

} // namespace

fs::path written_file(const std::string& path) {
  std::error_code error;
  fs::path target{path};
  const auto status = fs::status(target, error); // /dev/stdout may be a pipe
  if (fs::exists(status) && !fs::is_regular_file(status))
    throw InputError(path + ": is not a regular file; name a file to write");
  // Link by link: the last one may lead to what is not there yet.
  constexpr int max_links = 40; // as the system follows
  for (int links = 0; fs::is_symlink(target, error); ++links) {
    const auto next = fs::read_symlink(target, error);
    if (error || links == max_links)
      fail_to_write(path, error ? error.value() : ELOOP);
    target = target.parent_path() / next;
  }
  return target;
}

size_t longest_name(const fs::path& folder) {
  const auto most = ::pathconf(folder.c_str(), _PC_NAME_MAX);
  return most > 0 ? static_cast<size_t>(most) : NAME_MAX;
}

fs::path with_suffix(const fs::path& file, const std::string& suffix) {
  auto name = file.filename().string();
  const auto most = longest_name(folder_of(file));
  const auto room = most - std::min(most, suffix.size());
  if (name.size() > room) {
    auto end = room;
    while (end > 0 && (static_cast<unsigned char>(name[end]) & 0xC0U) == 0x80U)
      --end;
    name.resize(end);
  }
  return file.parent_path() / (name + suffix);
}

fs::path folder_of(const fs::path& file) {
  return file.has_parent_path() ? file.parent_path() : fs::path{"."};
}

void write_atomically(const std::string& path,
                      const std::vector<std::span<const std::byte>>& parts) {
  const auto target = written_file(path);
  TemporaryFile file{path, target};
  for (auto part : parts)
    file.write(part);
  file.rename_to(target);
  sync_folder(path, target);
}

} // namespace troupe
