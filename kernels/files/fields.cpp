#include "kernels/files/fields.hpp"

#include <algorithm>

namespace troupe {

namespace {

constexpr auto advice = "put fields in whole quotes, inner quotes doubled";

} // namespace

const std::vector<std::string_view>& Fields::split(std::string_view line,
                                                   const TextLines& lines) {
  fields_.clear();
  unquoted_.clear();
  // Views into it stay valid: a line has no more quoted fields than quotes.
  unquoted_.reserve(
    static_cast<size_t>(std::count(line.begin(), line.end(), '"')));
  while (true) {
    size_t end = 0;
    if (line.starts_with('"')) {
      end = take_quoted(line, lines);
    } else {
      end = std::min(line.find(separator_), line.size());
      fields_.push_back(line.substr(0, end));
    }
    if (end == line.size())
      return fields_;
    if (line[end] != separator_)
      lines.refuse("text follows the quoted field "
                     + std::to_string(fields_.size()),
                   advice);
    line.remove_prefix(end + 1);
  }
}

size_t Fields::take_quoted(std::string_view line, const TextLines& lines) {
  bool doubled = false;
  size_t end = 1;
  while (true) {
    end = line.find('"', end);
    if (end == line.npos)
      lines.refuse("the quotes of field " + std::to_string(fields_.size() + 1)
                     + " do not end on the line",
                   advice);
    if (end + 1 == line.size() || line[end + 1] != '"')
      break;
    doubled = true;
    end += 2;
  }
  auto inside = line.substr(1, end - 1);
  if (doubled) {
    auto& text = unquoted_.emplace_back();
    for (size_t i = 0; i < inside.size(); ++i) {
      text += inside[i];
      if (inside[i] == '"')
        ++i;
    }
    inside = text;
  }
  fields_.push_back(inside);
  return end + 1;
}

} // namespace troupe
