#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace troupe {

/// HOST:PORT taken apart; an IPv6 address stands in brackets, [::1]:7000.
struct Endpoint {
  std::string host; ///< without brackets
  uint16_t port = 0;
};
/// Errors: nullopt for anything else.
std::optional<Endpoint> parse_endpoint(const std::string& text);
/// HOST:PORT,HOST:PORT,… taken apart. Errors: empty for anything else.
std::vector<Endpoint> parse_endpoints(const std::string& text);
/// Puts together what parse_endpoint takes apart.
std::string to_string(const Endpoint& endpoint);
/// Tells whether only this machine can reach the host: 127.x.y.z, ::1 or
/// localhost.
bool is_loopback(const std::string& host);

} // namespace troupe
