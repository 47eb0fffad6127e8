#pragma once

#include "kernels/base/error.hpp"

#include <cstdint>
#include <span>
#include <string>

namespace troupe {

/// The memory that a file lies in has no room for it.
class NoRoomError : public InputError {
public:
  using InputError::InputError;
};

struct FileRange {
  uint64_t begin = 0;
  uint64_t bytes = 0;
};

/// Whether files there have an end that their sizes do not know, as those of
/// /dev/shm have: whoever touches a mapped page that cannot be had is killed
/// (SIGBUS). A memfd has none but the machine's memory.
bool lies_in_bounds(int file);

/// Takes the pages of a file that is long enough and lies in bounds, before
/// they are mapped and touched. Those that it has stay as they are. Nothing
/// where the file system knows no such call.
/// Errors: NoRoomError "PLACE: 5.2 MiB are needed there and 3.9 MiB are free;
/// …".
void take_pages(int file, std::span<const FileRange> ranges);

} // namespace troupe
