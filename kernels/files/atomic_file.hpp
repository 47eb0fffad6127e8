#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

namespace troupe {

/// Writes `parts` one after another as the file `path`: temporary file beside
/// it, fsync, rename, fsync of the folder. `path` is whole or as before; a
/// temporary file stays behind only when the process is killed.
/// Errors: InputError with the system's reason (FileError); also where `path`
/// names something that is not a regular file.
void write_atomically(const std::string& path,
                      const std::vector<std::span<const std::byte>>& parts);

/// The file that is written for `path`: where a link leads, which stays, also
/// where nothing is there yet.
/// Errors: InputError where something is there that is not a regular file;
/// links that lead round.
std::filesystem::path written_file(const std::string& path);

/// The folder of a file.
std::filesystem::path folder_of(const std::filesystem::path& file);

} // namespace troupe
