#pragma once

#include <sys/types.h>

#include <cstddef>

namespace troupe {

/// The system calls by which files are made durable, behind one interface so
/// that a test can fail each of them, or play a disk that loses power. All
/// return what the system returns, and leave its reason in errno.
class FileSystem {
public:
  virtual ~FileSystem() = default;

  virtual int open(const char* path, int flags, mode_t mode) = 0;
  virtual ssize_t write(int handle, const void* bytes, size_t size) = 0;
  virtual int fsync(int handle) = 0;
  virtual int close(int handle) = 0;
  virtual int rename(const char* from, const char* to) = 0;
  virtual int unlink(const char* path) = 0;
  virtual int mkdir(const char* path, mode_t mode) = 0;
  virtual int rmdir(const char* path) = 0;
};

/// The machine's own.
FileSystem& real_files();

} // namespace troupe
