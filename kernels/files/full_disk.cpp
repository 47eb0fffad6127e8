#include "kernels/files/full_disk.hpp"

#include <fcntl.h>

#include <cerrno>

namespace troupe {

void FullDisk::fill(std::chrono::milliseconds lasts) {
  until_ = (Clock::now() + lasts).time_since_epoch().count();
}

bool FullDisk::full() const {
  const auto until = until_.load();
  return until != 0 && Clock::now().time_since_epoch().count() < until;
}

void FullDisk::refuse() {
  ++refused_;
  errno = ENOSPC;
}

int FullDisk::open(const char* path, int flags, mode_t mode) {
  if ((flags & O_CREAT) == 0 || !full())
    return real_files().open(path, flags, mode);
  refuse();
  return -1;
}

ssize_t FullDisk::write(int handle, const void* bytes, size_t size) {
  if (!full())
    return real_files().write(handle, bytes, size);
  refuse();
  return -1;
}

int FullDisk::mkdir(const char* path, mode_t mode) {
  if (!full())
    return real_files().mkdir(path, mode);
  refuse();
  return -1;
}

int FullDisk::fsync(int handle) {
  return real_files().fsync(handle);
}

int FullDisk::close(int handle) {
  return real_files().close(handle);
}

int FullDisk::rename(const char* from, const char* to) {
  return real_files().rename(from, to);
}

int FullDisk::unlink(const char* path) {
  return real_files().unlink(path);
}

int FullDisk::rmdir(const char* path) {
  return real_files().rmdir(path);
}

} // namespace troupe
