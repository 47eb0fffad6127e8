#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace troupe {

/// Reads lines of separated numbers, 16 characters of a number at a time.
class NumberLine {
public:
  explicit NumberLine(char separator) : separator_(separator) {}

  /// Takes a line of as many fields as `values` has, each a number as
  /// parse_real reads it; false where it is none, has quotes, or has to be
  /// looked at more closely.
  bool take(std::string_view line, std::span<double> values);

private:
  bool find_ends(std::string_view line, size_t fields);

  char separator_;
  std::vector<char> text_;     ///< the line, with room before and behind it
  std::vector<uint32_t> ends_; ///< of its fields, in text_
};

} // namespace troupe
