#include "apps/doctor/finding.hpp"

#include <algorithm>

namespace troupe {

std::string in_lines(const std::vector<Finding>& findings, size_t width) {
  for (const auto& finding : findings)
    width = std::max(width, finding.what.size());
  const auto padded = [](const std::string& text, size_t to) {
    return text + std::string(to - std::min(to, text.size()), ' ');
  };
  constexpr const char* kinds[] = {"ok", "note", "WRONG"};
  std::string out;
  for (const auto& finding : findings) {
    out += padded(kinds[static_cast<size_t>(finding.kind)], 7)
           + padded(finding.what, width) + "  " + finding.found + '\n';
    if (!finding.remedy.empty())
      out += padded("", 7 + width) + "  -> " + finding.remedy + '\n';
  }
  return out;
}

} // namespace troupe
