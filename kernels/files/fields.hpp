#pragma once

#include "kernels/files/text_lines.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace troupe {

/// Cuts lines of separated values into fields. A field may stand in double
/// quotes, and then hold separators and, doubled, quotes (RFC 4180), but no
/// end of line.
class Fields {
public:
  explicit Fields(char separator) : separator_(separator) {}

  /// The fields of a line, valid until the next call or the line's end.
  /// Errors: InputError with file and line (a quote that does not end, text
  /// after it).
  const std::vector<std::string_view>& split(std::string_view line,
                                             const TextLines& lines);

private:
  size_t take_quoted(std::string_view line, const TextLines& lines);

  char separator_;
  std::vector<std::string_view> fields_;
  std::vector<std::string> unquoted_; ///< of fields with doubled quotes
};

} // namespace troupe
