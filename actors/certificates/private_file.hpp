#pragma once

#include <sys/stat.h>

#include <string>

/// Files of certificates and secrets, one line where something is wrong:
/// "certificates: PATH: …".
namespace troupe {

[[noreturn]] void refuse_certificate(const std::string& path,
                                     const std::string& why);

/// As ssh does: a key that others may read, or a place where others may put
/// one, is no secret and no identity. Errors: InputError.
void check_private(const std::string& path, const struct stat& about,
                   mode_t others);

/// Reads a file of this user or root that others cannot write to, and of a
/// secret not read. Errors: InputError.
std::string read_private(const std::string& path, bool secret);

/// Writes a file that nobody else may read: it is whole, or not there.
/// Errors: InputError.
void write_private(const std::string& path, const std::string& text);

} // namespace troupe
