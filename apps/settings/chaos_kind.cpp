#include "apps/settings/chaos_kind.hpp"

#include <algorithm>

namespace troupe {

std::vector<std::string> names_of_chaos() {
  auto names = names_of_faults();
  names.insert(names.end(),
               {"stall", "one-way", "throttle", "flip", "slow-control"});
  return names;
}

bool is_of_proxy(ChaosKind kind) {
  return kind >= ChaosKind::stall;
}

bool is_of_links(ChaosKind kind) {
  return is_of_proxy(kind) && kind != ChaosKind::slow_control;
}

bool loses_role(ChaosKind kind) {
  return !is_of_proxy(kind) && loses_role(static_cast<FaultKind>(kind));
}

bool may_strike(ChaosKind kind, RoleKind role, StepPhase phase) {
  using enum ChaosKind;
  if (kind == kill)
    return true;
  if (kind == nan || kind == device)
    return role == RoleKind::worker && phase == StepPhase::compute;
  if (kind == slow)
    return role == RoleKind::worker;
  if (role == RoleKind::coordinator)
    return (kind == stop || kind == full_disk) && phase == StepPhase::at_once;
  return kind != full_disk
         && (!is_of_proxy(kind) || phase == StepPhase::at_once);
}

bool lasts(ChaosKind kind) {
  using enum ChaosKind;
  return kind == stop || kind == slow || kind == full_disk
         || (is_of_proxy(kind) && kind != flip);
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
