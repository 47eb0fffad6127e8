#pragma once

#include "kernels/files/text_lines.hpp"

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace troupe {

/// Cuts lines of separated values into fields. A field may stand in double
/// quotes, and then hold separators, ends of lines and, doubled, quotes (RFC
/// 4180).
class Fields {
public:
  explicit Fields(char separator) : separator_(separator) {}

  /// The fields of the last line of `lines`, and of those that follow it where
  /// quotes begin in one and end in another; valid until the next call or the
  /// line's end.
  /// Errors: InputError with file and line (a quote that does not end, text
  /// after it).
  const std::vector<std::string_view>& split(std::string_view line,
                                             TextLines& lines);

private:
  /// A field by its place, since a line that grows moves.
  struct Place {
    size_t begin;
    size_t size;
    bool doubled; ///< holds doubled quotes
  };

  void split_quoted(std::string_view line, TextLines& lines);
  size_t take_quoted(std::string_view& line, size_t at, TextLines& lines);

  char separator_;
  std::vector<std::string_view> fields_;
  std::vector<Place> places_;
  std::string unquoted_; ///< of fields with doubled quotes
};

} // namespace troupe
