#include "strategies/bucket_tuning.hpp"

#include <boost/test/unit_test.hpp>

#include <vector>

using namespace troupe;

BOOST_AUTO_TEST_SUITE(bucket_tuning)

BOOST_AUTO_TEST_CASE(the_layout_that_costs_all_members_least_is_kept) {
  // The first member alone would take layout 0, the second layout 2.
  const double cost[2][3] = {{1, 3, 9}, {9, 3, 1}};
  std::vector<BucketTuning> members(2, BucketTuning{3});
  std::vector<int> tried(3);
  while (!members[0].is_due()) {
    BOOST_TEST(members[0].next() == members[1].next());
    const auto layout = members[0].next();
    ++tried[layout];
    for (int m = 0; m < 2; ++m)
      members[m].took(cost[m][layout] + tried[layout]);
  }
  BOOST_TEST(members[1].is_due());
  for (auto times : tried)
    BOOST_TEST(times >= static_cast<int>(BucketTuning::trials));
  std::vector<float> sums(3);
  for (const auto& member : members)
    for (int i = 0; i < 3; ++i)
      sums[i] += member.costs()[i];
  for (auto& member : members) {
    member.settle(sums);
    BOOST_TEST(!member.is_due());
    BOOST_TEST(member.next() == 1u);
    member.took(100);
    BOOST_TEST(member.next() == 1u);
  }
}

BOOST_AUTO_TEST_CASE(steps_that_warm_up_do_not_count) {
  BucketTuning tuning{2};
  for (uint32_t i = 0; i < BucketTuning::warm_up_steps; ++i)
    tuning.took(0.001);
  while (!tuning.is_due())
    tuning.took(1 + tuning.next());
  BOOST_TEST(tuning.costs()[0] == 1.0f);
  BOOST_TEST(tuning.costs()[1] == 2.0f);
}

BOOST_AUTO_TEST_CASE(one_layout_needs_no_trial) {
  BucketTuning tuning{1};
  for (int i = 0; i < 100; ++i) {
    BOOST_TEST(!tuning.is_due());
    BOOST_TEST(tuning.next() == 0u);
    tuning.took(1);
  }
}

BOOST_AUTO_TEST_SUITE_END()
