#include "actors/worker/step_holdings.hpp"

#include <boost/test/unit_test.hpp>

using namespace troupe;

BOOST_AUTO_TEST_SUITE(step_holdings_test)

BOOST_AUTO_TEST_CASE(
  of_a_step_in_hand_what_is_left_is_computed_of_the_next_one_all) {
  StepHoldings step;
  step.begin_epoch(4, {0, 4}, {{2, 3}}, {{0, 8}}, 8);
  const std::vector<RankRange> left{{2, 3}};
  const std::vector<RankRange> all{{0, 4}};
  BOOST_CHECK(step.nodes_of(4) == left);
  BOOST_CHECK(step.nodes_of(5) == all);
  step.compute();
  BOOST_TEST(step.nodes_of(4).empty());
  step.begin_step(5);
  BOOST_CHECK(step.nodes_of(5) == all);
}

// docs/reliability.md, 172891
BOOST_AUTO_TEST_CASE(what_is_computed_of_one_step_is_not_reported_of_another) {
  const std::vector<RankRange> all{{0, 4}};
  StepHoldings step;
  step.begin_epoch(16, {0, 4}, {{0, 8}}, {{0, 8}}, 8);
  step.compute();
  BOOST_CHECK(step.nodes() == all);
  step.begin_epoch(15, {0, 4}, {{0, 8}}, {{0, 8}}, 8); // version 16 is lost
  BOOST_TEST(step.nodes().empty());
  step.begin_epoch(16, {0, 4}, {}, {{0, 8}}, 8);
  BOOST_CHECK(step.nodes() == all);
}

BOOST_AUTO_TEST_SUITE_END()
