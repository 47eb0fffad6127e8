#include "actors/control/actor_node.hpp"

// A file of its own: who asks for this alone needs none of CAF's network.

namespace troupe {

bool is_loopback(const std::string& host) {
  return host == "localhost" || host == "::1" || host.starts_with("127.");
}

} // namespace troupe
