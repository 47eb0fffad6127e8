#include "apps/process/run_folder.hpp"

#include "kernels/base/error.hpp"
#include "kernels/base/rest_of.hpp"
#include "kernels/files/output_trial.hpp"

#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <utility>
#include <vector>

namespace troupe {
namespace {

namespace fs = std::filesystem;

/// What a job's own files need: flags, certificates, a journal.
constexpr uint64_t needed_bytes = uint64_t{1} << 20;
/// Of runs, or lives of a role by hand, that ended badly.
constexpr size_t kept_recorders = 3;

/// Where others have files of their own, the name says whose it is.
std::string prefix_in(bool shared, const RunFolder::Kind& kind) {
  if (!shared)
    return kind.prefix;
  return kind.prefix == RunFolder::Kind{}.prefix ? "troupe-"
                                                 : "troupe-" + kind.prefix;
}

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

/// All but the newest `kept` that have something in them.
void remove_left_over(const fs::path& place, const std::string& prefix,
                      size_t kept) {
  std::error_code failure, gone;
  std::vector<std::pair<fs::file_time_type, fs::path>> found;
  for (fs::directory_iterator entry{place, failure}, end;
       !failure && entry != end; entry.increment(failure))
    if (is_left_over(entry->path(), prefix))
      found.emplace_back(fs::is_empty(entry->path(), gone)
                           ? fs::file_time_type::min()
                           : entry->last_write_time(gone),
                         entry->path());
  std::ranges::sort(found);
  for (size_t i = 0; i < found.size(); ++i)
    if (i + kept < found.size() || found[i].first == fs::file_time_type::min())
      fs::remove_all(found[i].second, gone);
}

/// Errors: InputError where none can be made, or no file in it.
std::string make_in(const fs::path& place, bool shared,
                    const std::string& prefix) {
  std::error_code ignored; // mkdtemp says why
  if (!shared)
    fs::create_directories(place, ignored);
  auto path =
    (place
     / (prefix + host_name() + '-' + std::to_string(::getpid()) + "-XXXXXX"))
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

RunFolder::RunFolder(Place place, const Kind& kind) {
  const auto all = places(place);
  std::string why;
  for (const auto& one : all) {
    const bool shared = one == all.back();
    const auto prefix = prefix_in(shared, kind);
    try {
      path_ = make_in(one, shared, prefix);
    } catch (const InputError& failure) {
      why += (why.empty() ? "" : "; ") + std::string{failure.what()};
      continue;
    }
    remove_left_over(one, prefix, kind.kept);
    lock_ = std::make_unique<FolderLock>(path_);
    return;
  }
  throw InputError("cannot create a folder in " + why
                   + ": set TMPDIR to one that is writable");
}

RunFolder::~RunFolder() {
  std::error_code ignored;
  if (stays_)
    return;
  fs::remove_all(path_, ignored);
}

RunFolder::Kind RunFolder::recorders(const std::string& of) {
  auto name = of;
  std::ranges::replace(name, ':', '-');
  return {"flight-" + (name.empty() ? name : name + '-'), kept_recorders};
}

std::string folder_of_recorders(std::optional<RunFolder>& folder,
                                const std::string& of) {
  try {
    return folder.emplace(RunFolder::Place::state, RunFolder::recorders(of))
      .path();
  } catch (const InputError&) {
    return {};
  }
}

bool RunFolder::keep() {
  std::error_code ignored;
  stays_ = !fs::is_empty(path_, ignored) && !ignored;
  return stays_;
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
    kept_[path] = {rest_of(file), about.st_mode & 07777};
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
