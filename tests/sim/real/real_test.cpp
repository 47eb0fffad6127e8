#include "tests/sim/real/campaign.hpp"
#include "tests/sim/seed_budget.hpp"
#include "tests/sim/seed_runs.hpp"

#include <boost/test/unit_test.hpp>

#include <iostream>

using namespace troupe;

namespace {

/// Enough for each kind of fault to come ten times in one phase.
constexpr uint64_t min_seeds = 300;
constexpr uint64_t min_staged_seeds = 150;
constexpr uint64_t max_seeds = 2'000; ///< what the nightly test draws
/// Of each kind of world, of which there are six.
constexpr double budget_s = 10;

} // namespace

BOOST_AUTO_TEST_SUITE(real_worlds)

BOOST_AUTO_TEST_CASE(equal_seeds_give_equal_runs) {
  for (uint64_t seed :
       {0, 1, 2, 3, 4, 5, 1'000'000, 1'000'001, 1'000'002, 2'000'000, 2'000'001,
        3'000'000, 3'000'001, 4'000'000, 4'000'001, 5'000'000, 5'000'001}) {
    const auto first = real::Campaign{}.run(seed).result;
    const auto second = real::Campaign{}.run(seed).result;
    BOOST_TEST(first.events > 1'000u);
    BOOST_TEST(first.events == second.events);
    BOOST_TEST(first.messages == second.messages);
  }
}

namespace {

/// Draws worlds from seed `first` on; returns whether there were enough of them
/// for each kind of fault to have come.
bool check_worlds(real::Campaign& campaign, uint64_t first, uint64_t min) {
  const sim::SeedBudget budget{"TROUPE_REAL_SEEDS", min, max_seeds, budget_s};
  uint64_t few = 0;
  const auto end = sim::check_seeds(
    campaign, "test_sim_real", first,
    [&](uint64_t ran) { return budget.allows(ran); },
    [&](const auto& result) {
      BOOST_TEST_REQUIRE(result.commits >= 50u);
      few += result.faults < 3u ? 1 : 0;
    });
  std::cout << campaign.table() << campaign.sums() << '\n'
            << budget.describe(end) << ", " << few
            << " of which ended before three faults had come\n";
  BOOST_TEST(few * 50 <= end);
  if (end < min)
    return false;
  BOOST_TEST(campaign.corrupted() > 0u);
  return true;
}

/// Worlds whose roles have parts of the model.
void check_parts(uint64_t first) {
  real::Campaign campaign;
  if (!check_worlds(campaign, first, min_staged_seeds))
    return;
  for (auto fault :
       {real::Fault::kill_shard, real::Fault::pause, real::Fault::stop,
        real::Fault::cut_link, real::Fault::cut_control, real::Fault::corrupt,
        real::Fault::one_way, real::Fault::delay, real::Fault::clock})
    BOOST_TEST(campaign.coverage().most(fault) >= 10u, to_string(fault));
}

} // namespace

// I1-I5, I11-I13
BOOST_AUTO_TEST_CASE(no_seed_breaks_an_invariant) {
  real::Campaign campaign;
  if (!check_worlds(campaign, 0, min_seeds))
    return;
  for (uint32_t fault = 0; fault < real::fault_kinds; ++fault)
    BOOST_TEST(campaign.coverage().most(static_cast<real::Fault>(fault))
               >= 10u);
}

// I1-I4, I9, I11-I13: stages die, stand still and lose links in any schedule,
// and have the weights of one stage that nothing happens to.
BOOST_AUTO_TEST_CASE(no_seed_of_pipelines_breaks_an_invariant) {
  check_parts(real::first_pipeline_seed);
}

// The same of tensor members, which have the weights of one with all slices.
BOOST_AUTO_TEST_CASE(no_seed_of_tensor_members_breaks_an_invariant) {
  check_parts(real::first_tensor_seed);
}

// And of stages of tensor members.
BOOST_AUTO_TEST_CASE(no_seed_of_stages_of_members_breaks_an_invariant) {
  check_parts(real::first_grouped_seed);
}

// I1-I4, I9, I11-I13: of stages and of the shards that keep what these compute
// with, in chains of one or two; slices move.
BOOST_AUTO_TEST_CASE(no_seed_of_pipelines_beside_shards_breaks_an_invariant) {
  check_parts(real::first_beside_shards_seed);
}

// The same of tensor members, and of stages of them.
BOOST_AUTO_TEST_CASE(no_seed_of_members_beside_shards_breaks_an_invariant) {
  check_parts(real::first_members_beside_shards_seed);
}

BOOST_AUTO_TEST_SUITE_END()
