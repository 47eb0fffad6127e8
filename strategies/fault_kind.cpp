#include "strategies/fault_kind.hpp"

#include <algorithm>

namespace troupe {

std::vector<std::string> names_of_faults() {
  return {"kill",   "stop",      "slow",        "cut",       "nan",
          "device", "full-disk", "cut-control", "slow-disk", "memory-limit"};
}

bool loses_role(FaultKind kind) {
  return kind == FaultKind::kill || kind == FaultKind::device
         || kind == FaultKind::cut_control || kind == FaultKind::memory;
}

std::string to_string(FaultKind kind) {
  return names_of_faults()[static_cast<size_t>(kind)];
}

bool parse(const std::string& name, FaultKind& kind) {
  const auto names = names_of_faults();
  const auto found = std::ranges::find(names, name);
  if (found == names.end())
    return false;
  kind = static_cast<FaultKind>(found - names.begin());
  return true;
}

} // namespace troupe
