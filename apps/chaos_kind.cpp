#include "apps/chaos_kind.hpp"

#include <algorithm>

namespace troupe {

std::vector<std::string> names_of_chaos() {
  auto names = names_of_faults();
  names.insert(names.end(), {"stall", "one-way", "throttle", "flip"});
  return names;
}

bool is_of_links(ChaosKind kind) {
  return kind >= ChaosKind::stall;
}

bool lasts(ChaosKind kind) {
  using enum ChaosKind;
  return kind == stop || kind == slow || (is_of_links(kind) && kind != flip);
}

std::string to_string(ChaosKind kind) {
  return names_of_chaos()[static_cast<size_t>(kind)];
}

bool parse(const std::string& name, ChaosKind& kind) {
  const auto names = names_of_chaos();
  const auto found = std::ranges::find(names, name);
  if (found == names.end())
    return false;
  kind = static_cast<ChaosKind>(found - names.begin());
  return true;
}

} // namespace troupe
