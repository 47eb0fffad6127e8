#include "kernels/files/atomic_file.hpp"

#include "kernels/error.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <system_error>

namespace troupe {

namespace {

namespace fs = std::filesystem;

[[noreturn]] void fail(const std::string& path, int code) {
  throw InputError(path + ": cannot be written ("
                   + std::generic_category().message(code)
                   + "); check the folder, its permissions and the free space");
}

/// The file behind `path`, following links: these stay what they are.
fs::path target_of(const std::string& path) {
  std::error_code error;
  fs::path target{path};
  if (fs::is_symlink(target, error))
    target = fs::weakly_canonical(target, error);
  const auto status = fs::status(target, error);
  if (fs::exists(status) && !fs::is_regular_file(status))
    throw InputError(path + ": is not a regular file; name a file to write");
  return target;
}

/// A file that is removed again unless it was renamed.
class TemporaryFile {
public:
  TemporaryFile(const std::string& path, const fs::path& target) : path_(path) {
    // Another number where one was left behind by a process that was killed.
    for (int number = 0;; ++number) {
      name_ = target.string() + ".tmp-" + std::to_string(::getpid()) + "-"
              + std::to_string(number);
      handle_ = ::open(name_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC,
                       0666);
      if (handle_ >= 0)
        return;
      if (errno != EEXIST || number == 1000)
        fail(path_, errno);
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
    constexpr size_t most_per_call = size_t{1} << 30;
    while (!bytes.empty()) {
      const auto done = ::write(handle_, bytes.data(),
                                std::min(bytes.size(), most_per_call));
      if (done >= 0)
        bytes = bytes.subspan(static_cast<size_t>(done));
      else if (errno != EINTR)
        fail(path_, errno);
    }
  }

  void rename_to(const fs::path& target) {
    if (::fsync(handle_) != 0)
      fail(path_, errno);
    const auto closed = ::close(handle_);
    handle_ = -1;
    if (closed != 0 || ::rename(name_.c_str(), target.c_str()) != 0)
      fail(path_, errno);
    name_.clear();
  }

private:
  const std::string& path_;
  std::string name_;
  int handle_ = -1;
};

void sync_folder(const std::string& path, const fs::path& target) {
  const auto folder = target.has_parent_path() ? target.parent_path()
                                               : fs::path{"."};
  const int handle = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (handle < 0)
    fail(path, errno);
  // Some file systems cannot sync a folder and say so with EINVAL.
  const int code = ::fsync(handle) == 0 ? 0 : errno;
  ::close(handle);
  if (code != 0 && code != EINVAL)
    fail(path, code);
}

} // namespace

void write_atomically(const std::string& path,
                      const std::vector<std::span<const std::byte>>& parts) {
  const auto target = target_of(path);
  TemporaryFile file{path, target};
  for (auto part : parts)
    file.write(part);
  file.rename_to(target);
  sync_folder(path, target);
}

} // namespace troupe
