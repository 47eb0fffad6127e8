#include "actors/peer_directory.hpp"

#include <charconv>

namespace troupe {

std::optional<Endpoint> parse_endpoint(const std::string& text) {
  const auto colon = text.rfind(':');
  if (colon == std::string::npos || colon == 0)
    return std::nullopt;
  Endpoint result{text.substr(0, colon), 0};
  const auto* first = text.data() + colon + 1;
  const auto* last = text.data() + text.size();
  auto [end, failure] = std::from_chars(first, last, result.port);
  if (failure != std::errc{} || end != last || first == last)
    return std::nullopt;
  return result;
}

std::string local_name(uint64_t job, RoleId role) {
  return "troupe." + std::to_string(job) + '.' + to_string(role);
}

} // namespace troupe
