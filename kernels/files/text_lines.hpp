#pragma once

#include "kernels/files/byte_source.hpp"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace troupe {

/// The lines of a plain or compressed text file, one at a time: however large
/// the file, a few MiB are held.
class TextLines {
public:
  /// Errors: InputError (missing, not readable; a compressed file whose
  /// name does not say so).
  explicit TextLines(const DataFile& file);

  /// The next line without its end (\n or \r\n), valid until the next call;
  /// false at the end. A byte order mark at the start is left out.
  /// Errors: InputError (a line above 16 MiB; a damaged gzip stream).
  bool next(std::string_view& line);

  /// Makes the last line longer by the one that follows it, with the end of
  /// line between: a record that goes over several. `line` is all of it, valid
  /// until the next call; number() and offset() stay those of its first line.
  /// False, and the line as it was, at the end.
  /// Errors: as next(), of all lines together.
  bool extend(std::string_view& line);

  uint64_t number() const { return number_; } ///< of the last line, from 1
  /// Where the last line begins, in bytes of the unpacked file.
  uint64_t offset() const { return offset_; }
  const std::string& path() const { return path_; }

  /// Throws InputError "FILE:LINE: what; advice".
  [[noreturn]] void refuse(const std::string& what,
                           const std::string& advice) const;

private:
  bool fill();
  bool take(std::string_view& line, size_t known);
  [[noreturn]] void refuse_length(bool extended);

  std::string path_;
  std::unique_ptr<ByteSource> source_;
  std::vector<char> buffer_;
  size_t begin_ = 0;
  size_t end_ = 0;
  uint64_t number_ = 0;
  uint64_t further_ = 0; ///< lines that the last one was made longer by
  uint64_t dropped_ = 0; ///< bytes before the buffer's first
  uint64_t offset_ = 0;
  bool ended_ = false;
};

/// Text as part of a message: in quotes, one line, at most 40 characters.
std::string in_quotes(std::string_view text);

/// Text without spaces and tabs around it.
std::string_view trimmed(std::string_view text);

/// A finite number in decimal ("-1.5", "+2", "1e-3"), nothing before or after
/// it but spaces; else nothing.
std::optional<double> parse_real(std::string_view text);

/// Takes a number that is written with few digits off the front of [at, last),
/// as parse_real reads it and without spaces; false, and `at` as it was, where
/// it is not that simple.
bool take_real(const char*& at, const char* last, double& value);

/// A whole number ("3", "+3", "-3", also "3.0"); else nothing.
std::optional<int64_t> parse_whole(std::string_view text);

} // namespace troupe
