#include "actors/sockets/endpoint.hpp"

#include <algorithm>
#include <charconv>

namespace troupe {

std::optional<Endpoint> parse_endpoint(const std::string& text) {
  const auto colon = text.rfind(':');
  if (colon == std::string::npos || colon == 0)
    return std::nullopt;
  Endpoint result{text.substr(0, colon), 0};
  auto& host = result.host;
  const bool bracketed =
    host.size() > 2 && host.front() == '[' && host.back() == ']';
  if (bracketed)
    host = host.substr(1, host.size() - 2);
  if (host.find_first_of(bracketed ? "[]" : ":[]") != std::string::npos)
    return std::nullopt;
  const auto* first = text.data() + colon + 1;
  const auto* last = text.data() + text.size();
  auto [end, failure] = std::from_chars(first, last, result.port);
  if (failure != std::errc{} || end != last || first == last)
    return std::nullopt;
  return result;
}

std::vector<Endpoint> parse_endpoints(const std::string& text) {
  std::vector<Endpoint> out;
  for (size_t at = 0; at <= text.size();) {
    const auto end = std::min(text.find(',', at), text.size());
    const auto one = parse_endpoint(text.substr(at, end - at));
    if (!one)
      return {};
    out.push_back(*one);
    at = end + 1;
  }
  return out;
}

std::string to_string(const Endpoint& endpoint) {
  const bool six = endpoint.host.find(':') != std::string::npos;
  return (six ? '[' + endpoint.host + ']' : endpoint.host) + ':'
         + std::to_string(endpoint.port);
}

bool is_loopback(const std::string& host) {
  if (host == "localhost" || host == "::1")
    return true;
  // Four decimal numbers of which the first is 127; "127.example.org" is not.
  return host.starts_with("127.") && std::ranges::count(host, '.') == 3
         && host.find_first_not_of("0123456789.") == std::string::npos;
}

} // namespace troupe
