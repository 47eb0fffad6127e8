#include "strategies/restoration.hpp"

#include <boost/test/unit_test.hpp>

using namespace troupe;

BOOST_AUTO_TEST_SUITE(restoration)

BOOST_AUTO_TEST_CASE(survivors_that_differ_by_one_step_go_on_from_the_lower) {
  auto found = decide_restoration({{4, 5}, {5, 6}, {4, 5}}, 5);
  BOOST_TEST(found.version == 5u);
  BOOST_TEST(!found.rollback);
}

BOOST_AUTO_TEST_CASE(a_slice_without_its_state_sends_all_back_to_the_start) {
  auto found = decide_restoration({{4, 5}, {0, 0}}, 4);
  BOOST_TEST(found.version == 0u);
  BOOST_TEST(found.rollback);
  BOOST_TEST(found.reason.find("lost its state") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(at_the_first_step_a_fresh_slice_is_as_good_as_any) {
  BOOST_TEST(!decide_restoration({{0, 1}, {0, 0}}, 0).rollback);
  BOOST_TEST(!decide_restoration({{0, 0}, {0, 0}}, 0).rollback);
  BOOST_TEST(decide_restoration({{1, 1}, {0, 0}}, 0).rollback);
}

BOOST_AUTO_TEST_CASE(committed_steps_are_not_undone_in_silence) {
  BOOST_TEST(decide_restoration({{0, 0}, {0, 0}}, 1).rollback);
  BOOST_TEST(!decide_restoration({{0, 1}, {0, 1}}, 1).rollback);
}

BOOST_AUTO_TEST_CASE(replicas_go_on_from_the_newest_version_that_one_has) {
  auto found = decide_resumption({6, 7, 0, 7}, 6);
  BOOST_TEST(found.version == 7u);
  BOOST_TEST(found.source == 1u);
  BOOST_TEST(found.synchronise);
  BOOST_TEST(!found.rollback);
  BOOST_TEST(!decide_resumption({7, 7}, 7).synchronise);
  BOOST_TEST(!decide_resumption({0, 0}, 0).synchronise);
}

BOOST_AUTO_TEST_CASE(replicas_roll_back_only_if_all_that_committed_are_gone) {
  auto found = decide_resumption({0, 0}, 5);
  BOOST_TEST(found.rollback);
  BOOST_TEST(found.version == 0u);
  BOOST_TEST(found.reason.find("of 5") != std::string::npos);
  BOOST_TEST(!decide_resumption({0, 5}, 5).rollback);
}

BOOST_AUTO_TEST_SUITE_END()
