#include "strategies/step_phase.hpp"

#include <array>

namespace troupe {
namespace {

constexpr std::array<const char*, step_phases> names{
  "none",   "at-once", "pull", "compute", "push",
  "reduce", "forward", "seal", "copy"};

} // namespace

std::string to_string(StepPhase phase) {
  return names[static_cast<size_t>(phase)];
}

StepPhase step_phase(const std::string& name) {
  for (size_t i = 0; i < names.size(); ++i)
    if (name == names[i])
      return static_cast<StepPhase>(i);
  return StepPhase::none;
}

std::vector<StepPhase> phases_of(RoleKind kind) {
  using enum StepPhase;
  if (kind == RoleKind::worker)
    return {at_once, pull, compute, push, reduce, seal};
  if (kind == RoleKind::shard)
    return {at_once, pull, reduce, forward, seal, copy};
  if (has_model_part(kind)) // it pulls, or reduces
    return {at_once, pull, compute, push, reduce, seal};
  if (kind == RoleKind::coordinator)
    return {at_once, seal};
  if (kind == RoleKind::reader) // it has no part in a step
    return {at_once};
  return {};
}

} // namespace troupe
