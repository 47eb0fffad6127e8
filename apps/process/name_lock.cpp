#include "apps/process/name_lock.hpp"

#include "kernels/base/error.hpp"
#include "kernels/files/file_error.hpp"
#include "kernels/files/folder_lock.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

namespace troupe {
namespace {

/// Whether an open file is still the one of that name: who had the lock before
/// may have removed it meanwhile.
bool is_at(int file, const std::string& path) {
  struct stat own {};
  struct stat there {};
  return ::fstat(file, &own) == 0 && ::stat(path.c_str(), &there) == 0
         && own.st_ino == there.st_ino && own.st_dev == there.st_dev;
}

} // namespace

NameLock::NameLock(const std::string& file) : path_(file + ".lock") {
  constexpr int max_tries = 100;
  for (int i = 0; i < max_tries; ++i) {
    Descriptor handle{
      ::open(path_.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600)};
    if (!handle)
      throw FileError(path_ + ": cannot be made (" + reason_of(errno) + ")",
                      errno);
    // Where there are no locks, nobody is kept out.
    if (::flock(handle.get(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
      holder_ = lock_holder(handle.get());
      return;
    }
    if (is_at(handle.get(), path_)) {
      handle_ = std::move(handle);
      return;
    }
  }
}

NameLock::~NameLock() {
  release();
}

NameLock::NameLock(NameLock&& other) noexcept
  : path_(std::move(other.path_)),
    holder_(std::move(other.holder_)),
    handle_(std::move(other.handle_)) {}

NameLock& NameLock::operator=(NameLock&& other) noexcept {
  release();
  path_ = std::move(other.path_);
  holder_ = std::move(other.holder_);
  handle_ = std::move(other.handle_);
  return *this;
}

NameLock lock_journal(const std::string& file) {
  NameLock lock{file};
  if (!lock.held())
    throw InputError("journal " + file + ": " + lock.holder()
                     + " keeps it; each voter has a file of its own");
  return lock;
}

void NameLock::release() {
  if (!handle_)
    return;
  ::unlink(path_.c_str());
  handle_.reset();
}

} // namespace troupe
