#include "tests/sim/campaign.hpp"

#include <csetjmp>
#include <csignal>
#include <iostream>
#include <sstream>

namespace troupe::sim {
namespace {

sigjmp_buf back;

void on_abort(int) {
  siglongjmp(back, 1);
}

/// An assertion of the machines ends the process; here it ends the world,
/// whose memory is lost.
class CatchAbort {
public:
  CatchAbort() { before_ = std::signal(SIGABRT, on_abort); }
  ~CatchAbort() { std::signal(SIGABRT, before_); }
  CatchAbort(const CatchAbort&) = delete;
  CatchAbort& operator=(const CatchAbort&) = delete;

private:
  void (*before_)(int);
};

constexpr uint32_t min_faults = 3;

} // namespace

const Oracle& Campaign::oracle_of(const Scenario& scenario) {
  const auto alone = undisturbed(scenario);
  auto found = oracles_.find(alone.job.get());
  if (found == oracles_.end()) {
    Oracle oracle;
    if (scenario.gradient() == GradientKind::ordered || scenario.free_rows) {
      Cluster cluster{alone, 1, nullptr};
      cluster.run(0);
      oracle = std::move(cluster.recorded);
    }
    found = oracles_.emplace(alone.job.get(), std::move(oracle)).first;
  }
  return found->second;
}

Campaign::Verdict Campaign::run(uint64_t seed, bool trace) {
  const auto scenario = scenario_of(seed);
  const auto& oracle = oracle_of(scenario);
  Verdict verdict;
  auto cluster = std::make_unique<Cluster>(scenario, seed, &oracle);
  if (trace) {
    std::cout << "seed " << seed << ": " << scenario.describe() << '\n';
    cluster->trace();
  }
  const CatchAbort catches;
  if (sigsetjmp(back, 1) != 0) {
    verdict.what = "a machine found a bug";
    cluster.release(); // NOLINT: nobody knows what state it is in
    Runtime::abandon();
    return verdict;
  }
  try {
    Random draw{seed};
    verdict.result =
      cluster->run(static_cast<uint32_t>(draw.between(min_faults, 8)));
  } catch (const std::exception& failure) {
    verdict.what = failure.what();
  }
  commits_ += verdict.result.commits;
  faults_ += verdict.result.faults;
  events_ += verdict.result.events;
  changes_ += verdict.result.changes;
  switches_ += verdict.result.switches;
  (scenario.reckless ? reckless_ : beyond_) += verdict.result.beyond ? 1 : 0;
  coverage_.add(cluster->coverage);
  return verdict;
}

std::string Campaign::describe(uint64_t seed) {
  return scenario_of(seed).describe();
}

std::string Campaign::sums() const {
  std::ostringstream out;
  out << commits_ << " commits, " << faults_ << " faults, " << events_
      << " events, " << changes_ << " changes, " << switches_ << " switches, "
      << beyond_ << '+' << reckless_ << " beyond the promise";
  return out.str();
}

} // namespace troupe::sim
