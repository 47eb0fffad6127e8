#include "apps/doctor/diagnosis.hpp"
#include "apps/doctor/machine.hpp"
#include "apps/process/scrape.hpp"
#include "apps/settings/commands.hpp"
#include "apps/top/scraper.hpp"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <string>

namespace troupe {
namespace {

using namespace std::chrono_literals;

/// A role reports once a second: two reports of each, and some.
constexpr auto look_for = 3s;

/// Of a job that runs: what holds it up. What follows from rates has to be so
/// in each look of most of a second: on a busy machine one may be far off.
Finding examine_job(const Settings& settings) {
  using Clock = std::chrono::steady_clock;
  const auto& address = settings.metrics_address;
  constexpr auto steady = 750ms;
  std::string culprit;
  Clock::time_point since, looked;
  const auto unsteady = [&](const Finding& finding) {
    return finding.kind == Finding::Kind::wrong && looked - since < steady;
  };
  const auto job = watch_for(
    address, scrape_credentials(settings), look_for,
    [&](const JobView& seen) {
      if (diagnose_at_once(seen))
        return true;
      const auto finding = diagnose(seen, address);
      const auto named = finding.kind == Finding::Kind::wrong ? finding.what
                                                              : std::string{};
      looked = Clock::now();
      if (named != culprit || since == Clock::time_point{})
        since = looked;
      culprit = named;
      return false;
    },
    [&](const JobView& seen) {
      return is_undecided(seen) || unsteady(diagnose(seen, address));
    });
  auto finding = diagnose(job, address);
  if (!diagnose_at_once(job) && unsteady(finding))
    finding.kind = Finding::Kind::note;
  return finding;
}

} // namespace

int run_doctor(const Settings& settings) {
  bool wrong = false;
  const auto show = [&](const std::vector<Finding>& findings, size_t width) {
    std::fputs(in_lines(findings, width).c_str(), stdout);
    std::fflush(stdout);
    wrong |= std::ranges::any_of(findings, [](const Finding& finding) {
      return finding.kind == Finding::Kind::wrong;
    });
  };
  if (settings.given.count("metrics-address") > 0) {
    show({examine_job(settings)}, 0);
  } else {
    constexpr size_t width = 15; // "temporary files"
    show(examine_machine(settings), width);
    show(examine_devices(settings), width); // takes its time
  }
  return wrong ? 1 : 0;
}

} // namespace troupe
