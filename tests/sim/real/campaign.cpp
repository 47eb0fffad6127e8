#include "tests/sim/real/campaign.hpp"

#include <csignal>
#include <cstdio>
#include <iostream>
#include <sstream>

namespace troupe::real {
namespace {

/// One of them may come too late, and three are to take effect.
constexpr uint32_t min_faults = 4;

volatile std::sig_atomic_t seed_in_hand = 0;

/// An assertion ends the process; whoever reads of it wants the seed.
void name_seed(int) {
  std::fprintf(stderr, "an assertion in seed %ld\n",
               static_cast<long>(seed_in_hand));
}

} // namespace

const Cluster::Result& Campaign::undisturbed_of(const Scenario& scenario) {
  const auto alone = undisturbed(scenario);
  auto known = undisturbed_.find(alone.job.get());
  if (known == undisturbed_.end())
    known = undisturbed_
              .emplace(alone.job.get(), Cluster{alone, 1, false}.run(0))
              .first;
  return known->second;
}

Campaign::Verdict Campaign::run(uint64_t seed, bool trace) {
  const auto scenario = scenario_of(seed);
  seed_in_hand = static_cast<std::sig_atomic_t>(seed);
  std::signal(SIGABRT, name_seed);
  const auto expected = undisturbed_of(scenario);
  if (trace)
    std::cout << "seed " << seed << ": " << scenario.describe() << '\n';
  Verdict verdict;
  Cluster cluster{scenario, seed, trace};
  try {
    sim::Random draw{seed};
    verdict.result =
      cluster.run(static_cast<uint32_t>(draw.between(min_faults, 8)));
    const auto& result = verdict.result;
    if (result.weights_sha256 != expected.weights_sha256
        || result.state_sha256 != expected.state_sha256)
      verdict.what = "I3: other weights, or other state of the optimizer, "
                     "than those of an undisturbed run";
  } catch (const std::exception& failure) {
    verdict.what = failure.what();
  }
  commits_ += verdict.result.commits;
  faults_ += verdict.result.faults;
  events_ += verdict.result.events;
  messages_ += verdict.result.messages;
  corrupted_ += verdict.result.corrupted;
  changes_ += verdict.result.changes;
  coverage_.add(cluster.coverage);
  return verdict;
}

std::string Campaign::describe(uint64_t seed) {
  return scenario_of(seed).describe();
}

std::string Campaign::sums() const {
  std::ostringstream out;
  out << commits_ << " commits, " << faults_ << " faults, " << events_
      << " events, " << messages_ << " control messages, " << corrupted_
      << " bytes corrupted, " << changes_ << " changes";
  return out.str();
}

} // namespace troupe::real
