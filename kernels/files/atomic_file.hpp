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

/// The bytes that a name in the folder may have.
size_t longest_name(const std::filesystem::path& folder);

/// `file` with `suffix` added to its name, whose end is cut, by whole
/// characters (UTF-8), where the folder takes no name as long.
std::filesystem::path with_suffix(const std::filesystem::path& file,
                                  const std::string& suffix);

/// The folder of a file.
std::filesystem::path folder_of(const std::filesystem::path& file);

} // namespace troupe
