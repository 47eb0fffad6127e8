#include "apps/settings/chaos_kind.hpp"

#include <algorithm>

namespace troupe {

std::vector<std::string> names_of_chaos() {
  auto names = names_of_faults();
  names.insert(names.end(), {"stall", "one-way", "throttle", "flip",
                             "slow-control", "signal-all", "unreadable",
                             "host-kill", "host-cut", "host-slow"});
  return names;
}

bool is_of_proxy(ChaosKind kind) {
  return kind >= ChaosKind::stall && !ends_job(kind) && !is_of_hosts(kind);
}

bool is_of_hosts(ChaosKind kind) {
  return kind >= ChaosKind::host_kill;
}

bool is_of_links(ChaosKind kind) {
  return is_of_proxy(kind) && kind != ChaosKind::slow_control;
}

bool ends_job(ChaosKind kind) {
  return kind == ChaosKind::signal_all || kind == ChaosKind::unreadable;
}

bool is_of_workers(ChaosKind kind) {
  return kind == ChaosKind::nan || kind == ChaosKind::device
         || kind == ChaosKind::memory;
}

bool loses_role(ChaosKind kind) {
  return kind < ChaosKind::stall && loses_role(static_cast<FaultKind>(kind));
}

bool may_strike(ChaosKind kind, RoleKind role, StepPhase phase) {
  using enum ChaosKind;
  if (role == RoleKind::reader)
    return kind == kill || kind == stop;
  if (kind == kill)
    return true;
  if (is_of_hosts(kind))
    return phase == StepPhase::at_once;
  if (is_of_workers(kind))
    return role == RoleKind::worker && phase == StepPhase::compute;
  if (kind == slow)
    return role == RoleKind::worker || has_model_part(role);
  const bool of_coordinator = kind == full_disk || kind == slow_disk
                              || ends_job(kind);
  if (role == RoleKind::coordinator)
    return (kind == stop || of_coordinator) && phase == StepPhase::at_once;
  return !of_coordinator && (!is_of_proxy(kind) || phase == StepPhase::at_once);
}

bool lasts(ChaosKind kind) {
  using enum ChaosKind;
  return kind == stop || kind == slow || kind == full_disk || kind == slow_disk
         || ends_job(kind) || is_of_hosts(kind)
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
