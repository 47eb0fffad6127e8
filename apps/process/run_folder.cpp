#include "apps/process/run_folder.hpp"

#include "kernels/base/error.hpp"
#include "kernels/files/output_trial.hpp"

#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <vector>

namespace troupe {
namespace {

namespace fs = std::filesystem;

/// What a job's own files need: flags, certificates, a journal.
constexpr uint64_t needed_bytes = uint64_t{1} << 20;
constexpr const char* own_prefix = "run-";
constexpr const char* shared_prefix = "troupe-"; ///< where others have files

std::string host_name() {
  std::array<char, 256> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "";
}

/// Where a run's own files may be, the best first.
std::vector<fs::path> places(RunFolder::Place place) {
  std::vector<fs::path> out;
  const auto add = [&out](const char* variable, const char* below) {
    const auto* value = std::getenv(variable);
    if (value != nullptr && *value == '/')
      out.push_back(fs::path{value} / below);
  };
  if (place == RunFolder::Place::state) {
    add("XDG_STATE_HOME", "troupe");
    add("HOME", ".local/state/troupe");
  }
  const auto* temporary = std::getenv("TMPDIR");
  out.emplace_back(temporary != nullptr && *temporary != '\0' ? temporary
                                                              : "/tmp");
  return out;
}

/// Whether a folder of this host's is of a process that is gone.
bool is_left_over(const fs::path& folder, const std::string& prefix) {
  const auto name = folder.filename().string();
  const auto own = prefix + host_name() + '-';
  if (!name.starts_with(own))
    return false;
  const auto pid = std::atoi(name.c_str() + own.size());
  if (pid <= 0 || ::kill(pid, 0) == 0 || errno != ESRCH)
    return false;
  const int handle = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  const bool free = handle >= 0 && ::flock(handle, LOCK_EX | LOCK_NB) == 0;
  if (handle >= 0)
    ::close(handle);
  return free;
}

void remove_left_over(const fs::path& place, const std::string& prefix) {
  std::error_code failure;
  std::vector<fs::path> found;
  for (fs::directory_iterator entry{place, failure}, end;
       !failure && entry != end; entry.increment(failure))
    if (is_left_over(entry->path(), prefix))
      found.push_back(entry->path());
  for (const auto& folder : found)
    fs::remove_all(folder, failure);
}

/// Errors: InputError where none can be made, or no file in it.
std::string make_in(const fs::path& place, bool shared) {
  std::error_code ignored; // mkdtemp says why
  if (!shared)
    fs::create_directories(place, ignored);
  auto path = (place
               / ((shared ? shared_prefix : own_prefix) + host_name() + '-'
                  + std::to_string(::getpid()) + "-XXXXXX"))
                .string();
  if (mkdtemp(path.data()) == nullptr)
    throw InputError(place.string() + " (" + std::strerror(errno) + ")");
  try {
    try_output_folder(path, needed_bytes);
  } catch (const InputError&) {
    fs::remove_all(path, ignored);
    throw;
  }
  return path;
}

} // namespace

RunFolder::RunFolder(Place place) {
  const auto all = places(place);
  std::string why;
  for (const auto& one : all) {
    const bool shared = one == all.back();
    try {
      path_ = make_in(one, shared);
    } catch (const InputError& failure) {
      why += (why.empty() ? "" : "; ") + std::string{failure.what()};
      continue;
    }
    remove_left_over(one, shared ? shared_prefix : own_prefix);
    lock_ = std::make_unique<FolderLock>(path_);
    return;
  }
  throw InputError("cannot create a folder in " + why
                   + ": set TMPDIR to one that is writable");
}

RunFolder::~RunFolder() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

void RunFolder::remember() {
  std::error_code failure;
  for (fs::recursive_directory_iterator entry{path_, failure}, end;
       !failure && entry != end; entry.increment(failure)) {
    struct stat about {};
    const auto path = entry->path().string();
    if (::lstat(path.c_str(), &about) != 0 || !S_ISREG(about.st_mode))
      continue;
    std::ifstream file{path, std::ios::binary};
    kept_[path] = {{std::istreambuf_iterator<char>{file}, {}},
                   about.st_mode & 07777};
  }
}

void RunFolder::restore() const {
  for (const auto& [path, kept] : kept_) {
    if (::access(path.c_str(), F_OK) == 0)
      continue;
    std::error_code failure;
    const auto folder = fs::path{path}.parent_path();
    if (fs::create_directories(folder, failure))
      fs::permissions(folder, fs::perms::owner_all, failure);
    const int handle =
      ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, kept.mode);
    if (handle < 0)
      continue; // who reads it says what is missing
    [[maybe_unused]] const auto done = ::write(handle, kept.contents.data(),
                                               kept.contents.size());
    ::close(handle);
  }
}

} // namespace troupe
