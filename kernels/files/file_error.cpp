#include "kernels/files/file_error.hpp"

#include <cerrno>
#include <system_error>

namespace troupe {

std::string reason_of(int code) {
  return std::generic_category().message(code);
}

bool says_missing(int code) {
  return code == ENOENT || code == ENOTDIR || code == ELOOP;
}

bool says_no_room(int code) {
  return code == ENOSPC || code == EDQUOT;
}

void fail_to_write(const std::string& path, int code) {
  throw FileError(path + ": cannot be written (" + reason_of(code)
                    + "); check the folder, its permissions and the free space",
                  code);
}

} // namespace troupe
