#include "tests/sim/real/runs.hpp"

#include <csignal>
#include <cstdio>
#include <iomanip>
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

const Cluster::Result& Runs::undisturbed_of(const Scenario& scenario) {
  const auto alone = undisturbed(scenario);
  auto known = undisturbed_.find(alone.job.get());
  if (known == undisturbed_.end())
    known = undisturbed_
              .emplace(alone.job.get(), Cluster{alone, 1, false}.run(0))
              .first;
  return known->second;
}

Runs::Verdict Runs::run(uint64_t seed, bool trace) {
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
      verdict.broken = "I3: other weights, or other state of the optimizer, "
                       "than those of an undisturbed run";
  } catch (const std::exception& failure) {
    verdict.broken = failure.what();
  }
  commits_ += verdict.result.commits;
  faults_ += verdict.result.faults;
  events_ += verdict.result.events;
  messages_ += verdict.result.messages;
  corrupted_ += verdict.result.corrupted;
  changes_ += verdict.result.changes;
  for (size_t fault = 0; fault < fault_kinds; ++fault)
    for (size_t phase = 0; phase < phases; ++phase)
      coverage_[fault][phase] += cluster.coverage[fault][phase];
  return verdict;
}

std::string Runs::table() const {
  constexpr const char* names[] = {"forming", "sealing", "linking", "stepping"};
  std::ostringstream out;
  out << std::setw(12) << "";
  for (const auto* name : names)
    out << std::setw(11) << name;
  for (uint32_t fault = 0; fault < fault_kinds; ++fault) {
    out << '\n' << std::setw(12) << to_string(static_cast<Fault>(fault));
    for (auto count : coverage_[fault])
      out << std::setw(11) << count;
  }
  out << '\n'
      << commits_ << " commits, " << faults_ << " faults, " << events_
      << " events, " << messages_ << " control messages, " << corrupted_
      << " bytes corrupted, " << changes_ << " changes\n";
  return out.str();
}

} // namespace troupe::real
