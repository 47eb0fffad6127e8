#pragma once

#include "apps/chaos/plan.hpp"

#include <string>
#include <vector>

namespace troupe {

/// Reads which role gets which fault when:
///
///   [[strike]]
///   after_steps = 20          # since the strike before; or at_step = 100
///   [[strike.fault]]
///   role = "worker:1"         # worker:N, ps:N, reader:N, coordinator
///   kind = "kill"             # the default; or another of ChaosKind
///   phases = ["at-once", "copy"]  # or phase = "push"; at-once by default
///   passes = 2                # so often the phase is passed unharmed
///   ms = 250                  # of what lasts
///   link = 3                  # of cut, modulo how many there are
///   cable = 1                 # of host-cut, the same
///
/// `plan` tells which roles there are.
/// Errors: InputError for a file that cannot be read; UsageError
/// "FILE:LINE:COLUMN: …" for what is none of this.
std::vector<ChaosStrike> read_chaos_plan(const std::string& path,
                                         const Plan& plan);

/// Prints the same form.
std::string to_toml(const std::vector<ChaosStrike>& strikes, uint64_t seed);

} // namespace troupe
