#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

namespace troupe {

/// The bytes of a plain or a compressed file, from its start to its end.
class ByteSource {
public:
  virtual ~ByteSource() = default;
  /// Returns less than the size of `out` only at the end.
  /// Errors: InputError (not readable; a damaged or shortened gzip stream).
  virtual size_t read(std::span<std::byte> out) = 0;
  /// No more than this many bytes can come out, as far as is known: the size
  /// of a plain file.
  virtual uint64_t most() const = 0;
};

/// Whether a file of this name is taken for a compressed one.
bool is_gzip_name(const std::string& path);

/// Opens a file; one named .gz is inflated, of one or more members (RFC 1952).
/// Errors: InputError (missing, not a regular file, not readable).
std::unique_ptr<ByteSource> open_bytes(const std::string& path);

} // namespace troupe
