#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

namespace troupe {

/// Writes `parts` one after another as the file `path`: temporary file beside
/// it, fsync, rename, fsync of the folder. `path` is whole or as before; a
/// temporary file stays behind only when the process is killed.
/// Errors: InputError with the system's reason; also where `path` names
/// something that is not a regular file.
void write_atomically(const std::string& path,
                      const std::vector<std::span<const std::byte>>& parts);

} // namespace troupe
