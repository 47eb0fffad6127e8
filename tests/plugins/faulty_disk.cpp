// Preloaded into the program by process/file_faults_test.py: while the file
// FAULT_WHILE exists, calls on files below the folder FAULT_DIR fail with EIO
// (FAULT_HOW=read, write, stat: fstat alone, or sync: fsync alone), or fsync
// takes FAULT_MS longer (FAULT_HOW=slow), or each read does
// (FAULT_HOW=slow-read). What the C library calls inside itself is not seen.

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

namespace {

const std::string& variable(const char* name) {
  // Of four names only; each is looked at once.
  static const auto value = [](const char* which) {
    const char* text = getenv(which);
    return std::string{text == nullptr ? "" : text};
  };
  static const std::string folder = value("FAULT_DIR");
  static const std::string how = value("FAULT_HOW");
  static const std::string lasts = value("FAULT_WHILE");
  static const std::string ms = value("FAULT_MS");
  const std::string_view wanted = name;
  return wanted == "FAULT_DIR"     ? folder
         : wanted == "FAULT_HOW"   ? how
         : wanted == "FAULT_WHILE" ? lasts
                                   : ms;
}

bool inside(std::string_view path) {
  const auto& folder = variable("FAULT_DIR");
  return !folder.empty() && path.starts_with(folder);
}

bool inside(int handle) {
  char name[64];
  char path[4096];
  snprintf(name, sizeof name, "/proc/self/fd/%d", handle);
  const auto size = readlink(name, path, sizeof path);
  return size > 0 && inside({path, static_cast<size_t>(size)});
}

/// Whether the fault lasts, and is this one.
bool is_on(std::string_view how) {
  return variable("FAULT_HOW") == how
         && access(variable("FAULT_WHILE").c_str(), F_OK) == 0;
}

/// Whether this call is to fail; what it says is in errno.
bool fails(std::string_view how, int handle) {
  const int before = errno;
  const bool now = is_on(how) && inside(handle);
  errno = now ? EIO : before;
  return now;
}

bool fails_to_open(const char* path, int flags) {
  const int before = errno;
  const bool writes = (flags & (O_CREAT | O_WRONLY | O_RDWR)) != 0;
  const bool now = path != nullptr && inside(std::string_view{path})
                   && is_on(writes ? "write" : "read")
                   && (flags & O_DIRECTORY) == 0;
  errno = now ? EIO : before;
  return now;
}

void wait_for_disk(std::string_view how, int handle) {
  if (!is_on(how) || !inside(handle))
    return;
  const auto ms = atol(variable("FAULT_MS").c_str());
  const timespec time{ms / 1000, ms % 1000 * 1'000'000};
  nanosleep(&time, nullptr);
}

template <class Function>
Function* next(const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
}

} // namespace

extern "C" {

int open(const char* path, int flags, ...) {
  static const auto real = next<int(const char*, int, ...)>("open");
  va_list rest;
  va_start(rest, flags);
  const mode_t mode = (flags & O_CREAT) != 0 ? va_arg(rest, mode_t) : 0;
  va_end(rest);
  return fails_to_open(path, flags) ? -1 : real(path, flags, mode);
}

int open64(const char* path, int flags, ...) {
  static const auto real = next<int(const char*, int, ...)>("open64");
  va_list rest;
  va_start(rest, flags);
  const mode_t mode = (flags & O_CREAT) != 0 ? va_arg(rest, mode_t) : 0;
  va_end(rest);
  return fails_to_open(path, flags) ? -1 : real(path, flags, mode);
}

int fstat(int handle, struct stat* about) {
  static const auto real = next<int(int, struct stat*)>("fstat");
  return fails("stat", handle) ? -1 : real(handle, about);
}

ssize_t read(int handle, void* bytes, size_t size) {
  static const auto real = next<ssize_t(int, void*, size_t)>("read");
  wait_for_disk("slow-read", handle);
  return fails("read", handle) ? -1 : real(handle, bytes, size);
}

ssize_t pread(int handle, void* bytes, size_t size, off_t at) {
  static const auto real = next<ssize_t(int, void*, size_t, off_t)>("pread");
  wait_for_disk("slow-read", handle);
  return fails("read", handle) ? -1 : real(handle, bytes, size, at);
}

ssize_t pread64(int handle, void* bytes, size_t size, off_t at) {
  static const auto real = next<ssize_t(int, void*, size_t, off_t)>("pread64");
  wait_for_disk("slow-read", handle);
  return fails("read", handle) ? -1 : real(handle, bytes, size, at);
}

ssize_t write(int handle, const void* bytes, size_t size) {
  static const auto real = next<ssize_t(int, const void*, size_t)>("write");
  return fails("write", handle) ? -1 : real(handle, bytes, size);
}

ssize_t pwrite(int handle, const void* bytes, size_t size, off_t at) {
  using Call = ssize_t(int, const void*, size_t, off_t);
  static const auto real = next<Call>("pwrite");
  return fails("write", handle) ? -1 : real(handle, bytes, size, at);
}

ssize_t pwrite64(int handle, const void* bytes, size_t size, off_t at) {
  using Call = ssize_t(int, const void*, size_t, off_t);
  static const auto real = next<Call>("pwrite64");
  return fails("write", handle) ? -1 : real(handle, bytes, size, at);
}

int fsync(int handle) {
  static const auto real = next<int(int)>("fsync");
  wait_for_disk("slow", handle);
  const bool broken = fails("write", handle) || fails("sync", handle);
  return broken ? -1 : real(handle);
}

int fdatasync(int handle) {
  static const auto real = next<int(int)>("fdatasync");
  wait_for_disk("slow", handle);
  const bool broken = fails("write", handle) || fails("sync", handle);
  return broken ? -1 : real(handle);
}

} // extern "C"
