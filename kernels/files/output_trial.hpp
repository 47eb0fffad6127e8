#pragma once

#include <cstdint>
#include <string>

namespace troupe {

/// Finds out now whether the file `path` could be written later, of about
/// `bytes` (0: few): makes a file beside it, puts something in, and removes it.
/// What is at `path` stays.
/// Errors: InputError (a folder or device is there; the folder is missing,
/// cannot be written, or has no room).
void try_output(const std::string& path, uint64_t bytes);

/// The same of files of so many bytes in the folder `dir`.
void try_output_folder(const std::string& dir, uint64_t bytes);

} // namespace troupe
