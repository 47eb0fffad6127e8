// Preloaded into the program by process/set_clock_test.py: somebody sets the
// host's clock. The file SET_CLOCK holds by how many seconds, as text of 16
// characters, and is looked at in each call.

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include <cstdlib>

namespace {

/// Seconds; what is not there, or no number, is none.
time_t offset() {
  static const char* const text = [] {
    const char* path = getenv("SET_CLOCK");
    const int file = path == nullptr ? -1 : open(path, O_RDONLY | O_CLOEXEC);
    void* bytes = file < 0
                    ? MAP_FAILED
                    : mmap(nullptr, 4096, PROT_READ, MAP_SHARED, file, 0);
    if (file >= 0)
      close(file);
    return bytes == MAP_FAILED ? "0" : static_cast<const char*>(bytes);
  }();
  return static_cast<time_t>(strtoll(text, nullptr, 10));
}

template <class Function>
Function* next(const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
}

} // namespace

extern "C" {

int clock_gettime(clockid_t clock, timespec* out) {
  static const auto real = next<int(clockid_t, timespec*)>("clock_gettime");
  const int result = real(clock, out);
  if (result == 0
      && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE))
    out->tv_sec += offset();
  return result;
}

time_t time(time_t* out) {
  static const auto real = next<time_t(time_t*)>("time");
  const auto now = real(nullptr) + offset();
  if (out != nullptr)
    *out = now;
  return now;
}

int gettimeofday(timeval* out, void* zone) {
  static const auto real = next<int(timeval*, void*)>("gettimeofday");
  const int result = real(out, zone);
  if (result == 0)
    out->tv_sec += offset();
  return result;
}

} // extern "C"
