#include "actors/shard/kept_memory.hpp"

#include "actors/shard/shard_store.hpp"
#include "kernels/base/steady_clock.hpp"
#include "kernels/files/safetensors.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <set>
#include <span>
#include <system_error>
#include <thread>
#include <vector>

namespace troupe {
namespace {

constexpr const char* folder = "/dev/shm";
constexpr size_t name_digits = 16;
/// More shards or stages than a job has.
constexpr uint32_t roles_of_a_kind = 1024;
constexpr std::chrono::seconds lock_deadline{2};
constexpr std::chrono::hours kept_for{24};
/// A bit of the mode that nobody needs: nobody held the file at the time at
/// which it was last modified, and nobody has since.
constexpr mode_t seen_free = S_IXUSR;

std::string kept_prefix() {
  return "troupe-" + std::to_string(::geteuid()) + '-';
}

std::string kept_name_of(const std::string& coordinator, RoleId role) {
  const auto text = coordinator + ' ' + to_string(role);
  return kept_prefix()
         + sha256(std::as_bytes(std::span{text})).substr(0, name_digits);
}

bool is_kept_name(const std::string& name) {
  const auto prefix = kept_prefix();
  return name.starts_with(prefix) && name.size() == prefix.size() + name_digits
         && name.find_first_not_of("0123456789abcdef", prefix.size())
              == std::string::npos;
}

/// What a job at that address may have here.
std::set<std::string> names_at(const std::string& coordinator) {
  std::set<std::string> out;
  for (const auto kind : {RoleKind::shard, RoleKind::stage, RoleKind::tensor})
    for (uint32_t i = 0; i < roles_of_a_kind; ++i)
      out.insert(kept_name_of(coordinator, {kind, i}));
  return out;
}

Descriptor open_kept(const std::string& path, int more_flags) {
  return Descriptor{
    ::open(path.c_str(), O_RDWR | O_NOFOLLOW | O_CLOEXEC | more_flags, 0600)};
}

/// Whether it is a file of this user's, and of nobody else's.
bool is_own(const struct stat& found) {
  return S_ISREG(found.st_mode) && found.st_uid == ::geteuid()
         && (found.st_mode & 077) == 0 && found.st_nlink <= 1;
}

/// One that was killed a moment ago may still be giving its memory back.
bool lock(int file) {
  const auto deadline = SteadyClock::now() + lock_deadline;
  while (::flock(file, LOCK_EX | LOCK_NB) != 0) {
    if (SteadyClock::now() > deadline)
      return false;
    std::this_thread::sleep_for(std::chrono::milliseconds{20});
  }
  return true;
}

/// Of a file that nobody holds: whether nobody will ask for it. Notes that it
/// was seen.
bool is_forgotten(int file, const struct stat& found) {
  if ((found.st_mode & seen_free) == 0) {
    ::fchmod(file, S_IRUSR | S_IWUSR | seen_free);
    ::futimens(file, nullptr);
    return false;
  }
  timespec now{};
  ::clock_gettime(CLOCK_REALTIME, &now);
  return std::chrono::seconds{now.tv_sec - found.st_mtim.tv_sec} > kept_for;
}

} // namespace

KeptMemory::KeptMemory(const std::string& coordinator, RoleId role)
  : path_(std::string{folder} + '/' + kept_name_of(coordinator, role)) {
  // Whoever sweeps may have removed it between two of these calls.
  for (;;) {
    Descriptor file = open_kept(path_, O_CREAT);
    struct stat found {};
    if (!file || ::fstat(file.get(), &found) != 0)
      why_ = path_ + ": " + std::strerror(errno);
    else if (!is_own(found))
      why_ = path_ + " is somebody else's";
    else if (!lock(file.get()))
      why_ = path_ + " is another process's, which lives";
    else if (::fstat(file.get(), &found) == 0 && found.st_nlink == 0)
      continue;
    else
      file_ = std::move(file);
    break;
  }
  if (file_)
    ::fchmod(file_.get(), S_IRUSR | S_IWUSR);
}

void KeptMemory::belong_to(uint64_t job) {
  if (file_ && !ShardStore::is_of(file_.get(), job)
      && ::ftruncate(file_.get(), 0) != 0) {
    why_ = path_ + ": " + std::strerror(errno);
    file_.reset();
  }
}

void KeptMemory::remove() {
  if (file_)
    ::unlink(path_.c_str());
}

void sweep_kept_memory(const std::string& coordinator, uint64_t job) {
  namespace fs = std::filesystem;
  std::error_code failure;
  std::vector<std::string> found;
  for (fs::directory_iterator entry{folder, failure}, end;
       !failure && entry != end; entry.increment(failure))
    if (auto name = entry->path().filename().string(); is_kept_name(name))
      found.push_back(std::move(name));
  if (found.empty())
    return;
  const auto here = names_at(coordinator);
  for (const auto& name : found) {
    const auto path = std::string{folder} + '/' + name;
    const auto file = open_kept(path, 0);
    struct stat about {};
    if (!file || ::flock(file.get(), LOCK_EX | LOCK_NB) != 0
        || ::fstat(file.get(), &about) != 0 || !is_own(about))
      continue;
    const bool gone = here.contains(name) ? !ShardStore::is_of(file.get(), job)
                                          : is_forgotten(file.get(), about);
    if (gone)
      ::unlink(path.c_str());
  }
}

} // namespace troupe
