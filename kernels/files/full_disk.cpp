#include "kernels/files/full_disk.hpp"

#include "kernels/base/steady_clock.hpp"

#include <fcntl.h>

#include <cerrno>
#include <thread>

namespace troupe {
namespace {

constexpr std::chrono::seconds slow_sync{1};

bool is_before(SteadyClock::rep until) {
  return until != 0 && SteadyClock::now().time_since_epoch().count() < until;
}

} // namespace

void FullDisk::fill(std::chrono::milliseconds lasts) {
  until_ = (Clock::now() + lasts).time_since_epoch().count();
}

bool FullDisk::full() const {
  return is_before(until_);
}

void FullDisk::slow_down(std::chrono::milliseconds lasts) {
  slow_until_ = (Clock::now() + lasts).time_since_epoch().count();
}

bool FullDisk::slow() const {
  return is_before(slow_until_);
}

void FullDisk::wait_if_slow() {
  if (!slow())
    return;
  std::this_thread::sleep_for(slow_sync);
  ++waited_;
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
  wait_if_slow();
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
