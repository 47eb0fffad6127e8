#include "apps/doctor/diagnosis.hpp"
#include "apps/doctor/machine.hpp"
#include "apps/process/scrape.hpp"
#include "apps/settings/commands.hpp"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <thread>

namespace troupe {
namespace {

using namespace std::chrono_literals;

/// A role reports once a second: two reports of each, and some.
constexpr auto look_for = 3s;
constexpr auto look_every = 500ms;

/// Of a job that runs: what holds it up.
Finding examine_job(const Settings& settings) {
  const auto credentials = scrape_credentials(settings);
  const auto begin = std::chrono::steady_clock::now();
  JobWatch watch;
  JobView job;
  for (auto now = begin; now - begin < look_for;
       now = std::chrono::steady_clock::now()) {
    job = watch.look(scrape(settings.metrics_address, credentials),
                     std::chrono::duration<double>(now - begin).count());
    std::this_thread::sleep_for(look_every);
  }
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
