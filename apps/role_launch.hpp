#pragma once

#include "actors/job_runner.hpp"
#include "apps/role_output.hpp"
#include "apps/settings.hpp"

namespace troupe {

/// Runs the job of `settings` with every role in a process of this program.
/// What the roles print goes to `output`.
/// Errors: InputError when there is no folder for certificates, or the
/// coordinator does not start.
RunResult launch_roles(const Settings& settings, const RunOptions& run,
                       RoleOutput& output);

} // namespace troupe
