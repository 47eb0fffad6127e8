#pragma once

#include <cstdint>
#include <string>

namespace troupe {

/// Finds out now whether the file `path` could be written later, of about
/// `bytes` (0: few): makes a file without a name beside it, and puts something
/// in. What is at `path` stays. Trials that killed processes have left there,
/// on a file system where each file has a name, are removed.
/// Errors: InputError (a folder or device is there; the folder is missing,
/// cannot be written, or has no room; so long a file may not be written; the
/// name is too long).
void try_output(const std::string& path, uint64_t bytes);

/// The same of files of so many bytes in the folder `dir`.
void try_output_folder(const std::string& dir, uint64_t bytes);

} // namespace troupe
