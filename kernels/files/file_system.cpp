#include "kernels/files/file_system.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>

namespace troupe {
namespace {

class RealFiles final : public FileSystem {
public:
  int open(const char* path, int flags, mode_t mode) override {
    return ::open(path, flags, mode);
  }
  ssize_t write(int handle, const void* bytes, size_t size) override {
    return ::write(handle, bytes, size);
  }
  int fsync(int handle) override { return ::fsync(handle); }
  int close(int handle) override { return ::close(handle); }
  int rename(const char* from, const char* to) override {
    return ::rename(from, to);
  }
  int unlink(const char* path) override { return ::unlink(path); }
  int mkdir(const char* path, mode_t mode) override {
    return ::mkdir(path, mode);
  }
  int rmdir(const char* path) override { return ::rmdir(path); }
};

} // namespace

FileSystem& real_files() {
  static RealFiles files; // has no state
  return files;
}

} // namespace troupe
