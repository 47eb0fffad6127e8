#pragma once

#include "kernels/base/error.hpp"

#include <string>

namespace troupe {

/// A call of the system on a file failed. Of one that cannot be read it is not
/// known what is in it: it is not damaged.
class FileError : public InputError {
public:
  FileError(const std::string& line, int code)
    : InputError(line), code_(code) {}

  int code() const { return code_; } ///< errno of the call

private:
  int code_;
};

/// "Input/output error"
std::string reason_of(int code);

/// The call found that there is no such file, not that it cannot be had now.
bool says_missing(int code);
/// It found no room: the disk is full, or the user's share of it.
bool says_no_room(int code);

/// Errors: always; FileError "PATH: cannot be written (why); …".
[[noreturn]] void fail_to_write(const std::string& path, int code);

} // namespace troupe
