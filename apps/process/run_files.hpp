#pragma once

#include "actors/launch/job_runner.hpp"
#include "apps/settings/settings.hpp"
#include "strategies/time_ledger.hpp"

#include <chrono>
#include <string>

namespace troupe {

/// Unix time from when it is made, in nanoseconds; a clock that is set
/// meanwhile makes a run no longer.
class RunTime {
public:
  TimeSpan until_now() const {
    const auto lasted = std::chrono::steady_clock::now() - began_;
    return {first_.count(), (first_ + lasted).count()};
  }

private:
  std::chrono::steady_clock::time_point began_{
    std::chrono::steady_clock::now()};
  std::chrono::nanoseconds first_{
    std::chrono::system_clock::now().time_since_epoch()};
};

/// Writes summary and report where asked, with what this process alone knows of
/// the run: its command, and the ledger by the recorders in a folder (empty:
/// none). Where one of them cannot be written the other is all the same, and
/// status and line of the result say so.
void write_run_files(const Settings& settings, const std::string& flight,
                     TimeSpan run, RunResult& result);

} // namespace troupe
