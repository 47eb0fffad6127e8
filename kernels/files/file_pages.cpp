#include "kernels/files/file_pages.hpp"

#include "kernels/base/control_group.hpp"
#include "kernels/files/file_error.hpp"

#include <fcntl.h>
#include <sys/statvfs.h>

#include <cerrno>
#include <filesystem>
#include <system_error>

namespace troupe {
namespace {

/// 0, or errno.
int take(int file, const FileRange& range) {
  while (::fallocate(file, FALLOC_FL_KEEP_SIZE, static_cast<off_t>(range.begin),
                     static_cast<off_t>(range.bytes))
         != 0)
    if (errno != EINTR)
      return errno;
  return 0;
}

std::string place_of(int file) {
  std::error_code failure;
  const auto path = std::filesystem::read_symlink(
    "/proc/self/fd/" + std::to_string(file), failure);
  return failure ? "a memory file" : path.string();
}

uint64_t free_beside(int file) {
  struct statvfs about {};
  return ::fstatvfs(file, &about) == 0
           ? uint64_t{about.f_bavail} * about.f_frsize
           : 0;
}

} // namespace

bool lies_in_bounds(int file) {
  struct statvfs about {};
  return ::fstatvfs(file, &about) == 0 && about.f_blocks != 0;
}

void take_pages(int file, std::span<const FileRange> ranges) {
  uint64_t needed = 0;
  for (const auto& range : ranges)
    needed += range.bytes;
  uint64_t taken = 0;
  for (const auto& range : ranges) {
    if (range.bytes == 0)
      continue;
    const int code = take(file, range);
    if (code == 0)
      taken += range.bytes;
    else if (says_no_room(code) || code == ENOMEM)
      throw NoRoomError(place_of(file) + ": " + in_units(needed)
                        + " are needed there and "
                        + in_units(free_beside(file) + taken)
                        + " are free; make it larger (docker run --shm-size)");
  }
}

} // namespace troupe
