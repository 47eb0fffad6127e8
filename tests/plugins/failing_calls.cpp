// Preloaded into the program by process/failing_calls_test.py: of the calls
// that touch a folder, FAIL_DIR, number FAIL_AT (from 0) fails, or the process
// dies there. What the C library calls inside itself is not seen.

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdarg>
#include <cstdlib>
#include <cstring>
#include <string>

namespace {

std::atomic<long> calls{0};
std::atomic<bool> ours[4096]; // descriptors of that folder's files

const char* variable(const char* name) {
  const char* value = getenv(name);
  return value == nullptr ? "" : value;
}

bool inside(const char* path) {
  static const std::string folder = variable("FAIL_DIR");
  return path != nullptr && !folder.empty()
         && strncmp(path, folder.c_str(), folder.size()) == 0;
}

bool is_ours(int handle) {
  return handle >= 0 && handle < 4096 && ours[handle];
}

/// Whether this call, by its name, is to fail; what it says is in errno.
bool fails(const char* call) {
  static const long at = atol(variable("FAIL_AT"));
  static const std::string how = variable("FAIL_HOW");
  if (calls++ != at)
    return false;
  // Tells the test which one it was.
  const int seen =
    static_cast<int>(syscall(SYS_openat, AT_FDCWD, variable("FAIL_SEEN"),
                             O_CREAT | O_WRONLY | O_CLOEXEC, 0666));
  if (seen >= 0) {
    syscall(SYS_write, seen, call, strlen(call));
    syscall(SYS_close, seen);
  }
  if (how == "kill")
    kill(getpid(), SIGKILL);
  errno = how == "full" ? ENOSPC : EIO;
  return true;
}

template <class Function>
Function* next(const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
}

int open_any(const char* name, const char* path, int flags, mode_t mode) {
  const auto real = next<int(const char*, int, ...)>(name);
  const bool changes = inside(path)
                       && ((flags & (O_CREAT | O_WRONLY | O_RDWR)) != 0
                           || (flags & O_DIRECTORY) != 0);
  if (changes && fails("open"))
    return -1;
  const int handle = real(path, flags, mode);
  if (handle >= 0 && handle < 4096)
    ours[handle] = changes;
  return handle;
}

} // namespace

extern "C" {

int open(const char* path, int flags, ...) {
  va_list rest;
  va_start(rest, flags);
  const mode_t mode = (flags & O_CREAT) != 0 ? va_arg(rest, mode_t) : 0;
  va_end(rest);
  return open_any("open", path, flags, mode);
}

int open64(const char* path, int flags, ...) {
  va_list rest;
  va_start(rest, flags);
  const mode_t mode = (flags & O_CREAT) != 0 ? va_arg(rest, mode_t) : 0;
  va_end(rest);
  return open_any("open64", path, flags, mode);
}

ssize_t write(int handle, const void* bytes, size_t size) {
  static const auto real = next<ssize_t(int, const void*, size_t)>("write");
  return is_ours(handle) && fails("write") ? -1 : real(handle, bytes, size);
}

int fsync(int handle) {
  static const auto real = next<int(int)>("fsync");
  return is_ours(handle) && fails("fsync") ? -1 : real(handle);
}

int close(int handle) {
  static const auto real = next<int(int)>("close");
  const bool failing = is_ours(handle) && fails("close");
  if (handle >= 0 && handle < 4096)
    ours[handle] = false;
  const int done = real(handle);
  if (failing)
    errno = EIO;
  return failing ? -1 : done;
}

int rename(const char* from, const char* to) noexcept {
  static const auto real = next<int(const char*, const char*)>("rename");
  return inside(to) && fails("rename") ? -1 : real(from, to);
}

int unlink(const char* path) noexcept {
  static const auto real = next<int(const char*)>("unlink");
  return inside(path) && fails("unlink") ? -1 : real(path);
}

int rmdir(const char* path) noexcept {
  static const auto real = next<int(const char*)>("rmdir");
  return inside(path) && fails("rmdir") ? -1 : real(path);
}

int mkdir(const char* path, mode_t mode) noexcept {
  static const auto real = next<int(const char*, mode_t)>("mkdir");
  return inside(path) && fails("mkdir") ? -1 : real(path, mode);
}

} // extern "C"
