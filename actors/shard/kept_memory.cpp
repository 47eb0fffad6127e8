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
#include <span>
#include <thread>

namespace troupe {
namespace {

constexpr const char* folder = "/dev/shm";
constexpr size_t name_digits = 16;
constexpr std::chrono::seconds lock_deadline{2};

std::string path_of(const std::string& coordinator, RoleId role) {
  const auto text = coordinator + ' ' + to_string(role);
  return std::string{folder} + "/troupe-" + std::to_string(::geteuid()) + '-'
         + sha256(std::as_bytes(std::span{text})).substr(0, name_digits);
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

} // namespace

KeptMemory::KeptMemory(const std::string& coordinator, RoleId role)
  : path_(path_of(coordinator, role)) {
  Descriptor file{
    ::open(path_.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600)};
  struct stat found {};
  if (!file || ::fstat(file.get(), &found) != 0)
    why_ = path_ + ": " + std::strerror(errno);
  else if (!S_ISREG(found.st_mode) || found.st_uid != ::geteuid()
           || (found.st_mode & 077) != 0 || found.st_nlink != 1)
    why_ = path_ + " is somebody else's";
  else if (!lock(file.get()))
    why_ = path_ + " is another process's, which lives";
  else
    file_ = std::move(file);
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

} // namespace troupe
