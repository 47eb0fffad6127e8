#pragma once

#include "kernels/files/byte_source.hpp"

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace troupe {

/// A file of records read once from its start to its end, plain or compressed:
/// where it stands is known, and what a record claims of its length is
/// believed only as far as there are bytes.
class ByteStream {
public:
  /// Errors: InputError (missing, not readable; a compressed file whose name
  /// does not say so).
  explicit ByteStream(const DataFile& file);

  const std::string& path() const { return path_; }
  /// Bytes of the unpacked file that were taken.
  uint64_t at() const { return at_; }

  /// Fills `out`; less than its size only at the end.
  size_t read(std::span<uint8_t> out);
  /// Makes `out` the next `count` bytes, fewer only at the end.
  void take(uint64_t count, std::vector<uint8_t>& out);
  /// Passes over `count` bytes; false where the file ends before.
  bool skip(uint64_t count);

private:
  bool fill();

  std::string path_;
  std::unique_ptr<ByteSource> source_;
  std::vector<uint8_t> buffer_;
  size_t begin_ = 0;
  size_t end_ = 0;
  uint64_t at_ = 0;
};

/// What a file says of one record may be this long: what a reader holds.
constexpr uint64_t longest_record = uint64_t{64} << 20;

/// Throws InputError "FILE: byte AT: what; advice".
[[noreturn]] void refuse_record(const std::string& path, uint64_t at,
                                const std::string& what,
                                const std::string& advice);

} // namespace troupe
