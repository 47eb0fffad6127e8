#include "tests/sim/real/runs.hpp"
#include "tests/sim/seed_budget.hpp"

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <iostream>

using namespace troupe;

namespace {

/// Enough for each kind of fault to come ten times in one phase.
constexpr uint64_t min_seeds = 300;
constexpr uint64_t min_staged_seeds = 150;
constexpr uint64_t max_seeds = 2'000; ///< what the nightly test draws

} // namespace

BOOST_AUTO_TEST_SUITE(real_worlds)

BOOST_AUTO_TEST_CASE(equal_seeds_give_equal_runs) {
  for (uint64_t seed : {0, 1, 2, 3, 4, 5, 1'000'000, 1'000'001, 1'000'002}) {
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
  const sim::SeedBudget budget{"TROUPE_REAL_SEEDS", min_seeds, max_seeds};
  uint64_t failed = 0, few = 0, end = 0;
  for (; budget.allows(end) && failed < 5; ++end) {
    const auto seed = end;
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
  std::cout << runs.table() << budget.describe(end) << ", " << few
            << " of which ended before three faults had come\n";
  BOOST_TEST(few * 50 <= end);
  if (end < min_seeds)
    return;
  BOOST_TEST(runs.corrupted() > 0u);
  for (const auto& fault : runs.coverage())
    BOOST_TEST(*std::max_element(fault.begin(), fault.end()) >= 10u);
}

// I1-I4, I9, I11-I13: stages die, stand still and lose links in any schedule,
// and have the weights of one stage that nothing happens to.
BOOST_AUTO_TEST_CASE(no_seed_of_pipelines_breaks_an_invariant) {
  real::Runs runs;
  const sim::SeedBudget budget{"TROUPE_REAL_SEEDS", min_staged_seeds,
                               max_seeds};
  uint64_t failed = 0, few = 0, end = 0;
  for (; budget.allows(end) && failed < 5; ++end) {
    const auto seed = real::first_pipeline_seed + end;
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
  std::cout << runs.table() << budget.describe(end) << ", " << few
            << " of which ended before three faults had come\n";
  BOOST_TEST(few * 50 <= end);
  if (end < min_staged_seeds)
    return;
  BOOST_TEST(runs.corrupted() > 0u);
  const auto most = [&](real::Fault fault) {
    const auto& of = runs.coverage()[static_cast<size_t>(fault)];
    return *std::max_element(of.begin(), of.end());
  };
  for (auto fault :
       {real::Fault::kill_shard, real::Fault::pause, real::Fault::stop,
        real::Fault::cut_link, real::Fault::cut_control, real::Fault::corrupt,
        real::Fault::one_way, real::Fault::delay, real::Fault::clock})
    BOOST_TEST(most(fault) >= 10u, to_string(fault));
}

BOOST_AUTO_TEST_SUITE_END()
