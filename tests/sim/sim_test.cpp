#include "tests/sim/campaign.hpp"
#include "tests/sim/seed_budget.hpp"
#include "tests/sim/seed_runs.hpp"

#include <boost/test/unit_test.hpp>

#include <iostream>
#include <vector>

using namespace troupe;

namespace {

/// Seeds that once found a bug: docs/reliability.md says which.
constexpr uint64_t regressions[] = {
  52,     89,     128,    382,    983,    2746,   2866,   4188,   5499,
  5518,   5562,   5978,   8110,   8555,   8943,   9984,   13793,  17342,
  19654,  19700,  31411,  460,    8823,   9799,   18600,  25701,  49093,
  19270,  1438,   4293,   8724,   1035,   14572,  109320, 122415, 172891,
  189073, 142930, 160846, 942,    2717,   3467,   105418, 7630,   113853,
  210473, 214173, 232252, 236885, 262707, 270566, 273329, 285418, 289454,
  297868, 307129, 262801, 290081, 370185, 377510};

/// Enough for each kind of fault to come ten times in one phase.
constexpr uint64_t min_seeds = 1'500;
constexpr uint64_t host_seeds = 300;
constexpr uint64_t rough_seeds = 300;
constexpr uint64_t norm_seeds = 300;
constexpr uint64_t max_seeds = 20'000; ///< what the nightly test draws
constexpr double budget_s = 30;

} // namespace

BOOST_AUTO_TEST_SUITE(worlds)

BOOST_AUTO_TEST_CASE(seeds_that_once_found_a_bug_find_none) {
  sim::Campaign campaign;
  for (auto seed : regressions) {
    const auto verdict = campaign.run(seed);
    BOOST_TEST(verdict.what == "", "seed " << seed << ": " << verdict.what);
  }
}

BOOST_AUTO_TEST_CASE(equal_seeds_give_equal_runs) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    const auto first = sim::Campaign{}.run(seed).result;
    const auto second = sim::Campaign{}.run(seed).result;
    BOOST_TEST(first.events == second.events);
    BOOST_TEST(first.virtual_us == second.virtual_us);
  }
}

// I1-I6, I11, I12
BOOST_AUTO_TEST_CASE(no_seed_breaks_an_invariant) {
  sim::Campaign campaign;
  const sim::SeedBudget budget{"TROUPE_SIM_SEEDS", min_seeds, max_seeds,
                               budget_s};
  const auto end = sim::check_seeds(
    campaign, "test_sim", 0, [&](uint64_t ran) { return budget.allows(ran); },
    [](const auto& result) {
      BOOST_TEST_REQUIRE(result.commits >= 50u);
      BOOST_TEST_REQUIRE(result.faults >= 3u);
    });
  std::cout << campaign.table() << budget.describe(end) << ", "
            << campaign.commits() << " commits, " << campaign.faults()
            << " faults, " << campaign.beyond()
            << " worlds beyond what is promised, and " << campaign.reckless()
            << " of the reckless ones\n";
  BOOST_TEST(campaign.beyond() * 100 <= end);
  if (end < 1000)
    return;
  BOOST_TEST(campaign.reckless() * 300 >= end); // 18 of 4,107, 39 of 6,831
  BOOST_TEST(campaign.switches() * 20 >= end);
  for (uint32_t fault = 0; fault < sim::first_host_fault; ++fault)
    BOOST_TEST(campaign.coverage().most(static_cast<sim::Fault>(fault)) >= 10u);
}

namespace {

using Faults = std::vector<sim::Fault>;

Faults from_to(uint32_t first, uint32_t end) {
  Faults out;
  for (auto fault = first; fault < end; ++fault)
    out.push_back(static_cast<sim::Fault>(fault));
  return out;
}

/// Runs worlds of one kind, which strike with the faults, among others.
void check_worlds(const char* kind, uint64_t first, uint64_t count,
                  const Faults& faults) {
  sim::Campaign campaign;
  sim::check_seeds(
    campaign, "test_sim", first, [&](uint64_t ran) { return ran < count; },
    [](const auto&) {});
  std::cout << campaign.table() << count << ' ' << kind << ", "
            << campaign.faults() << " faults\n";
  BOOST_TEST(campaign.beyond() * 100 <= count);
  for (auto fault : faults)
    BOOST_TEST(campaign.coverage().most(fault) >= 10u);
}

} // namespace

// Found by sweeps: docs/reliability.md tells what each was.
BOOST_AUTO_TEST_CASE(worlds_that_failed_once_do_not_fail_again) {
  sim::Campaign campaign;
  for (const uint64_t seed : {20'000'351, 20'006'607, 20'007'554, 20'012'972,
                              20'013'119, 20'014'886, 10'000'493, 10'002'061})
    BOOST_TEST(campaign.run(seed).what == "", "seed " << seed);
}

// I1-I4, I11, I12, and PROTOCOL 17
BOOST_AUTO_TEST_CASE(no_world_of_hosts_breaks_an_invariant) {
  check_worlds("worlds of hosts", sim::first_host_seed, host_seeds,
               from_to(sim::first_host_fault, sim::first_rough_fault));
}

// I1-I4, I11, I12
BOOST_AUTO_TEST_CASE(no_rough_world_breaks_an_invariant) {
  check_worlds("rough worlds", sim::first_rough_seed, rough_seeds,
               from_to(sim::first_rough_fault, sim::fault_kinds));
}

// I1-I4, I11, I12: each gradient depends on sums over all virtual ranks
BOOST_AUTO_TEST_CASE(no_world_of_norms_breaks_an_invariant) {
  sim::abandoned_passes = 0;
  check_worlds("worlds of norms", sim::first_norm_seed, norm_seeds,
               {sim::Fault::kill_worker, sim::Fault::cut_link});
  std::cout << sim::abandoned_passes << " passes ended at a sum\n";
  BOOST_TEST(sim::abandoned_passes > 0u);
}

BOOST_AUTO_TEST_SUITE_END()
