#define BOOST_TEST_NO_MAIN
#include "kernels/base/steady_clock.hpp"
#include "tests/sim/campaign.hpp"
#include "tests/sim/runtime.hpp"

#include <boost/test/unit_test.hpp>

#include <chrono>
#include <cstring>
#include <iostream>
#include <set>

namespace {

/// The machine's clock, not the simulated one.
double seconds() {
  return std::chrono::duration<double>(
           std::chrono::steady_clock::now().time_since_epoch())
    .count();
}

/// `only`: worlds whose description has this.
int run_seeds(uint64_t first, uint64_t end, bool trace,
              const std::string& only = {}) {
  troupe::sim::Campaign campaign;
  std::set<std::string> seen;
  uint64_t failed = 0;
  const auto begin = seconds();
  for (auto seed = first; seed < end; ++seed) {
    if (troupe::sim::scenario_of(seed).describe().find(only)
        == std::string::npos)
      continue;
    const auto verdict = campaign.run(seed, trace);
    if (verdict.invariant.empty())
      continue;
    ++failed;
    if (failed < 30)
      std::cout << "seed " << seed << ": "
                << troupe::sim::scenario_of(seed).describe() << ": "
                << verdict.what << std::endl;
  }
  const auto took = seconds() - begin;
  std::cout << campaign.table() << end - first << " seeds, " << failed
            << " failed, " << campaign.commits() << " commits, "
            << campaign.faults() << " faults, " << campaign.events()
            << " events, " << campaign.changes() << " changes, "
            << campaign.switches() << " switches, " << campaign.beyond() << '+'
            << campaign.reckless() << " beyond the promise, "
            << took * 1000 / static_cast<double>(end - first) << " ms a seed\n";
  return failed > 0;
}

troupe::SteadyClock::time_point simulated() noexcept {
  return troupe::SteadyClock::time_point{
    std::chrono::microseconds{troupe::sim::Runtime::get().now()}};
}

bool no_tests() {
  return true;
}

} // namespace

/// test_sim --seed N [--trace] | --seeds FIRST END [WORD, of the worlds that
/// are meant] | Boost.Test's options.
int main(int argc, char** argv) {
  troupe::SteadyClock::pass_in(simulated);
  if (argc > 2 && std::strcmp(argv[1], "--seed") == 0) {
    const auto seed = std::stoull(argv[2]);
    std::cout << "seed " << seed << ": "
              << troupe::sim::scenario_of(seed).describe() << std::endl;
    return run_seeds(seed, seed + 1, argc > 3);
  }
  if (argc > 3 && std::strcmp(argv[1], "--seeds") == 0)
    return run_seeds(std::stoull(argv[2]), std::stoull(argv[3]), false,
                     argc > 4 ? argv[4] : "");
  return boost::unit_test::unit_test_main(no_tests, argc, argv);
}
