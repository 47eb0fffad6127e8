#pragma once

#include "actors/wire/interfaces.hpp"

#include <string>

namespace troupe {

/// A role that has joined, as the coordinator knows it.
struct PresentRole {
  uint64_t incarnation = 0;
  role_actor actor;
  std::string endpoint;
  std::string links;
  std::string host_mark{};     ///< of where they are met; empty: not known
  std::string numeric_class{}; ///< of a worker's device
};

} // namespace troupe
