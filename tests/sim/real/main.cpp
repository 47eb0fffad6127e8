#define BOOST_TEST_NO_MAIN
#include "kernels/base/steady_clock.hpp"
#include "tests/sim/real/runs.hpp"
#include "tests/sim/real/world.hpp"

#include <boost/test/unit_test.hpp>

#include <chrono>
#include <cstring>
#include <iostream>

namespace {

/// The machine's clock, not the simulated one.
double seconds() {
  return std::chrono::duration<double>(
           std::chrono::steady_clock::now().time_since_epoch())
    .count();
}

int run_seeds(uint64_t first, uint64_t end, bool trace) {
  troupe::real::Runs runs;
  uint64_t failed = 0;
  const auto begin = seconds();
  for (auto seed = first; seed < end; ++seed) {
    const auto verdict = runs.run(seed, trace);
    if (verdict.broken.empty())
      continue;
    ++failed;
    std::cout << "seed " << seed << ": "
              << troupe::real::scenario_of(seed).describe() << ": "
              << verdict.broken << std::endl;
  }
  std::cout << runs.table() << end - first << " seeds, " << failed
            << " failed, "
            << (seconds() - begin) * 1000 / static_cast<double>(end - first)
            << " ms a seed\n";
  return failed > 0 ? 1 : 0;
}

troupe::SteadyClock::time_point simulated() noexcept {
  return troupe::SteadyClock::time_point{
    std::chrono::microseconds{troupe::real::World::clock()}};
}

bool no_tests() {
  return true;
}

} // namespace

/// Pipelines are the seeds from 1,000,000 on.
/// test_sim_real --seed N [--trace] | --seeds FIRST END | Boost.Test's options.
int main(int argc, char** argv) {
  troupe::SteadyClock::pass_in(simulated);
  if (argc > 2 && std::strcmp(argv[1], "--seed") == 0) {
    const auto seed = std::stoull(argv[2]);
    std::cout << "seed " << seed << ": "
              << troupe::real::scenario_of(seed).describe() << std::endl;
    return run_seeds(seed, seed + 1, argc > 3);
  }
  if (argc > 3 && std::strcmp(argv[1], "--seeds") == 0)
    return run_seeds(std::stoull(argv[2]), std::stoull(argv[3]), false);
  return boost::unit_test::unit_test_main(no_tests, argc, argv);
}
