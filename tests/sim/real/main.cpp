#define BOOST_TEST_NO_MAIN
#include "tests/sim/real/runs.hpp"

#include <boost/test/unit_test.hpp>

#include <cstring>
#include <ctime>
#include <iostream>

namespace {

/// The simulated clock is not this one.
double seconds() {
  timespec time{};
  clock_gettime(CLOCK_MONOTONIC, &time);
  return static_cast<double>(time.tv_sec)
         + static_cast<double>(time.tv_nsec) / 1e9;
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

bool no_tests() {
  return true;
}

} // namespace

/// Pipelines are the seeds from 1,000,000 on.
/// test_sim_real --seed N [--trace] | --seeds FIRST END | Boost.Test's options.
int main(int argc, char** argv) {
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
