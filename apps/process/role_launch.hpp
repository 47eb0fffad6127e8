#pragma once

#include "actors/launch/job_runner.hpp"
#include "apps/process/role_hosts.hpp"
#include "apps/process/role_output.hpp"
#include "apps/settings/settings.hpp"
#include "apps/terminal/interrupt.hpp"

namespace troupe {

/// Runs the job of `settings` with every role in a process of this program: on
/// this machine, or all but the coordinator on `hosts`.
/// What the roles print goes to `output`. `interrupt`, where there is one,
/// stops them with this process (Ctrl-Z), and takes the run's folder along.
/// Errors: InputError when there is no folder for certificates, the coordinator
/// does not start, or as RoleHosts.
RunResult launch_roles(const Settings& settings, const RunOptions& run,
                       RoleOutput& output, Interrupt* interrupt = nullptr,
                       RoleHosts* hosts = nullptr);

} // namespace troupe
