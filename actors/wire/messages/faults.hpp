#pragma once

#include "actors/wire/messages/fields.hpp"
#include "strategies/fault_kind.hpp"
#include "strategies/step_phase.hpp"

#include <string>

/// Faults that are put into a running job on purpose.
namespace troupe {

template <class Inspector>
bool inspect(Inspector& f, StepPhase& x) {
  auto get = [&x] { return static_cast<uint8_t>(x); };
  auto set = [&x](uint8_t value) {
    x = static_cast<StepPhase>(value);
    return value < step_phases;
  };
  return f.apply(get, set);
}

template <class Inspector>
bool inspect(Inspector& f, FaultKind& x) {
  auto get = [&x] { return static_cast<uint8_t>(x); };
  auto set = [&x](uint8_t value) {
    x = static_cast<FaultKind>(value);
    return value < fault_kinds;
  };
  return f.apply(get, set);
}

/// Somebody outside lets something happen to a role in a phase. Answered once
/// it has happened, and, if the role is lost by it, the job is whole again;
/// refused when the phase does not come in time.
struct InjectFault {
  RoleId role;
  /// Names with commas between: its replacement dies in the second, and so on.
  std::string phases;
  uint32_t after = 0; ///< so often the role passes the phase alive
  uint64_t deadline_ms = 10'000;
  FaultKind kind = FaultKind::kill;
  uint32_t amount = 0; ///< stop, slow: milliseconds; cut: which link, modulo
};
/// Tells the role to be struck when it passes the phase once more than `after`
/// times; `none` takes that back.
struct ArmFault {
  uint64_t job = 0;
  StepPhase phase = StepPhase::none;
  uint32_t after = 0;
  FaultKind kind = FaultKind::kill;
  uint32_t amount = 0;
};
/// The role says that it has happened, and lives.
struct FaultStruck {
  uint64_t job = 0;
  RoleId role;
  StepPhase phase = StepPhase::none;
};

TROUPE_INSPECT(InjectFault, TROUPE_FIELD(role), TROUPE_FIELD(phases),
               TROUPE_FIELD(after), TROUPE_FIELD(deadline_ms),
               TROUPE_FIELD(kind), TROUPE_FIELD(amount))
TROUPE_INSPECT(ArmFault, TROUPE_FIELD(job), TROUPE_FIELD(phase),
               TROUPE_FIELD(after), TROUPE_FIELD(kind), TROUPE_FIELD(amount))
TROUPE_INSPECT(FaultStruck, TROUPE_FIELD(job), TROUPE_FIELD(role),
               TROUPE_FIELD(phase))

} // namespace troupe
