#include "kernels/files/output_trial.hpp"

#include "kernels/files/atomic_file.hpp"
#include "kernels/files/file_error.hpp"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <system_error>
#include <vector>

namespace troupe {
namespace {

namespace fs = std::filesystem;

std::string megabytes(uint64_t bytes) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f MB", static_cast<double>(bytes) / 1e6);
  return text;
}

/// Some file systems do not know how large they are.
void require_room(const std::string& name, const fs::path& folder,
                  uint64_t bytes) {
  struct statvfs about {};
  if (::statvfs(folder.c_str(), &about) != 0 || about.f_blocks == 0)
    return;
  const auto room = uint64_t{about.f_bavail} * about.f_frsize;
  if (room < bytes)
    throw FileError(name + ": needs " + megabytes(bytes) + ", and "
                      + megabytes(room)
                      + " are free there; make room or name another place",
                    ENOSPC);
}

void require_name(const std::string& path, const fs::path& folder,
                  const std::string& name) {
  if (const auto most = longest_name(folder); name.size() > most)
    throw FileError(path + ": its name has " + std::to_string(name.size())
                      + " bytes, and may have " + std::to_string(most)
                      + " there; choose a shorter one",
                    ENAMETOOLONG);
}

/// Some processes may not write long files (`ulimit -f`).
void require_length(const std::string& name, uint64_t bytes) {
  rlimit most{};
  if (::getrlimit(RLIMIT_FSIZE, &most) == 0 && most.rlim_cur != RLIM_INFINITY
      && most.rlim_cur < bytes)
    throw FileError(name + ": needs " + megabytes(bytes)
                      + ", and files of this process may have "
                      + megabytes(most.rlim_cur)
                      + "; raise the limit (ulimit -f)",
                    EFBIG);
}

constexpr const char* trial_prefix = ".troupe-trial-";

/// Nobody needs one once it is open: those that are seen are of processes that
/// were killed, or are about to go.
void remove_trials(const fs::path& folder) {
  std::error_code failure;
  std::vector<fs::path> found;
  for (fs::directory_iterator entry{folder, failure}, end;
       !failure && entry != end; entry.increment(failure))
    if (entry->path().filename().string().starts_with(trial_prefix))
      found.push_back(entry->path());
  for (const auto& path : found)
    ::unlink(path.c_str());
}

/// A file in the folder that has no name there, so that none is left when the
/// process is killed; where the file system knows none, one whose name is gone
/// after a moment. Errors: -1, and errno.
int open_trial(const fs::path& folder) {
  const int handle = ::open(folder.c_str(), O_WRONLY | O_TMPFILE | O_CLOEXEC,
                            0600);
  if (handle >= 0 || (errno != EOPNOTSUPP && errno != EISDIR))
    return handle;
  const auto path = folder / (trial_prefix + std::to_string(::getpid()));
  const int named = ::open(path.c_str(),
                           O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (named >= 0)
    ::unlink(path.c_str());
  return named;
}

void try_in(const std::string& name, const fs::path& folder, uint64_t bytes) {
  remove_trials(folder);
  const int handle = open_trial(folder);
  if (handle < 0)
    fail_to_write(name, errno);
  static constexpr std::array<char, 4096> some{};
  const auto done = ::write(handle, some.data(), some.size());
  const int code = done < 0 ? errno : 0;
  ::close(handle);
  if (code != 0)
    fail_to_write(name, code);
  require_room(name, folder, std::max<uint64_t>(bytes, some.size()));
}

} // namespace

void try_output(const std::string& path, uint64_t bytes) {
  require_length(path, bytes);
  const auto target = written_file(path);
  const auto folder = folder_of(target);
  require_name(path, folder, target.filename().string());
  try_in(path, folder, bytes);
}

void try_output_folder(const std::string& dir, uint64_t bytes) {
  try_in(dir, dir, bytes);
}

} // namespace troupe
