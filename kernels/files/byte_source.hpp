#pragma once

#include "kernels/files/data_file.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace troupe {

/// The bytes of a plain or a compressed file, from its start to its end.
class ByteSource {
public:
  virtual ~ByteSource() = default;
  /// Returns less than the size of `out` only at the end.
  /// Errors: InputError (not readable; a damaged or shortened stream).
  virtual size_t read(std::span<std::byte> out) = 0;
  /// No more than this many bytes can come out, as far as is known: the size
  /// of a plain file.
  virtual uint64_t most() const = 0;
};

/// Whether a file of this name is taken for a compressed one: .gz, or .zst.
bool is_packed_name(const std::string& path);
bool is_gzip_name(const std::string& path); ///< .gz

/// Of a plain file whose first bytes are those of a compressed one: "is a gzip
/// stream; add .gz to its name". Else empty.
std::string unnamed_packing(const std::string& path, std::string_view start);

/// Opens a file; one named .gz is inflated, of one or more members (RFC 1952),
/// and one named .zst, of one or more frames (RFC 8878) whose window is at most
/// 64 MiB. Of an object elsewhere the next parts are fetched while one is read.
/// Errors: InputError (missing, not a regular file, not readable).
std::unique_ptr<ByteSource> open_bytes(const DataFile& file);

} // namespace troupe
