#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace troupe {

/// HOST:PORT taken apart. Errors: nullopt for anything else.
struct Endpoint {
  std::string host;
  uint16_t port = 0;
};
std::optional<Endpoint> parse_endpoint(const std::string& text);
/// HOST:PORT,HOST:PORT,… taken apart. Errors: empty for anything else.
std::vector<Endpoint> parse_endpoints(const std::string& text);

} // namespace troupe
