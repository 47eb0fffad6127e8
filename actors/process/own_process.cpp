#include "actors/process/own_process.hpp"

#include <unistd.h>

#include <array>

namespace troupe {

RoleProcess own_process() {
  std::array<char, 256> name{};
  ::gethostname(name.data(), name.size() - 1);
  return {name.data(), static_cast<uint32_t>(::getpid())};
}

} // namespace troupe
