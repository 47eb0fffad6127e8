#include "tests/sim/real/runs.hpp"

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <cstdlib>
#include <iostream>

using namespace troupe;

namespace {

uint64_t seeds_to_run() {
  const auto* text = std::getenv("TROUPE_REAL_SEEDS");
  return text != nullptr ? std::strtoull(text, nullptr, 10) : 2'000;
}

} // namespace

BOOST_AUTO_TEST_SUITE(real_worlds)

BOOST_AUTO_TEST_CASE(equal_seeds_give_equal_runs) {
  for (uint64_t seed = 0; seed < 6; ++seed) {
    const auto first = real::Runs{}.run(seed).result;
    const auto second = real::Runs{}.run(seed).result;
    BOOST_TEST(first.events > 1'000u);
    BOOST_TEST(first.events == second.events);
    BOOST_TEST(first.messages == second.messages);
  }
}

// I1-I5, I11-I13
BOOST_AUTO_TEST_CASE(no_seed_breaks_an_invariant) {
  real::Runs runs;
  const auto end = seeds_to_run();
  uint64_t failed = 0, few = 0;
  for (uint64_t seed = 0; seed < end && failed < 5; ++seed) {
    const auto verdict = runs.run(seed);
    if (!verdict.broken.empty()) {
      ++failed;
      BOOST_ERROR("seed " << seed << ": " << verdict.broken
                          << " (test_sim_real --seed " << seed << " --trace)");
      continue;
    }
    BOOST_TEST_REQUIRE(verdict.result.commits >= 50u);
    few += verdict.result.faults < 3u ? 1 : 0;
  }
  std::cout << runs.table() << end << " seeds, " << few
            << " of which ended before three faults had come\n";
  BOOST_TEST(few * 50 <= end);
  if (end < 1'000)
    return;
  BOOST_TEST(runs.corrupted() > 0u);
  for (const auto& fault : runs.coverage())
    BOOST_TEST(*std::max_element(fault.begin(), fault.end()) >= 10u);
}

BOOST_AUTO_TEST_SUITE_END()
