#include "strategies/step_nodes.hpp"

#include <boost/test/unit_test.hpp>

using namespace troupe;

BOOST_AUTO_TEST_SUITE(step_nodes_test)

BOOST_AUTO_TEST_CASE(
  of_a_step_in_hand_what_is_left_is_computed_of_the_next_one_all) {
  StepNodes nodes;
  nodes.begin_epoch(4, {0, 4}, {{2, 3}}, {{0, 8}}, 8);
  const std::vector<RankRange> left{{2, 3}};
  const std::vector<RankRange> all{{0, 4}};
  BOOST_CHECK(nodes.of(4) == left);
  BOOST_CHECK(nodes.of(5) == all);
  nodes.compute();
  BOOST_TEST(nodes.of(4).empty());
  nodes.begin_step(5);
  BOOST_CHECK(nodes.of(5) == all);
}

BOOST_AUTO_TEST_CASE(
  ranks_that_are_computed_together_are_all_computed_again_or_none) {
  const std::vector<RankRange> all{{0, 4}};
  StepNodes nodes;
  nodes.begin_epoch(4, {0, 4}, {{6, 7}}, {{0, 8}}, 8, true);
  BOOST_CHECK(nodes.of(4) == all);
  nodes.begin_epoch(4, {0, 4}, {}, {{0, 8}}, 8, true);
  BOOST_TEST(!nodes.anything_left());
  BOOST_CHECK(nodes.of(5) == all);
}

// docs/reliability.md, 172891
BOOST_AUTO_TEST_CASE(what_is_computed_of_one_step_is_not_reported_of_another) {
  const std::vector<RankRange> all{{0, 4}};
  StepNodes nodes;
  nodes.begin_epoch(16, {0, 4}, {{0, 8}}, {{0, 8}}, 8);
  nodes.compute();
  BOOST_CHECK(nodes.computing() == all);
  nodes.begin_epoch(15, {0, 4}, {{0, 8}}, {{0, 8}}, 8); // version 16 is lost
  BOOST_TEST(nodes.computing().empty());
  nodes.begin_epoch(16, {0, 4}, {}, {{0, 8}}, 8);
  BOOST_CHECK(nodes.computing() == all);
}

BOOST_AUTO_TEST_SUITE_END()
