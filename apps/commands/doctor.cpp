#include "apps/doctor/diagnosis.hpp"
#include "apps/doctor/machine.hpp"
#include "apps/process/scrape.hpp"
#include "apps/settings/commands.hpp"
#include "apps/top/scraper.hpp"

#include <algorithm>
#include <chrono>
#include <cstdio>

namespace troupe {
namespace {

using namespace std::chrono_literals;

/// A role reports once a second: two reports of each, and some.
constexpr auto look_for = 3s;

/// Of a job that runs: what holds it up.
Finding examine_job(const Settings& settings) {
  const auto job = watch_for(settings.metrics_address,
                             scrape_credentials(settings), look_for);
  return diagnose(job, settings.metrics_address);
}

} // namespace

int run_doctor(const Settings& settings) {
  const auto findings = settings.given.count("metrics-address") > 0
                          ? std::vector{examine_job(settings)}
                          : examine_machine(settings);
  std::fputs(in_lines(findings).c_str(), stdout);
  return std::ranges::any_of(findings,
                             [](const Finding& finding) {
                               return finding.kind == Finding::Kind::wrong;
                             })
           ? 1
           : 0;
}

} // namespace troupe
