#include "strategies/pull_desk.hpp"

#include <boost/test/unit_test.hpp>

using namespace troupe;

BOOST_AUTO_TEST_SUITE(pull_desk)

namespace {

const RoleId first{RoleKind::worker, 0};
const RoleId second{RoleKind::worker, 1};

} // namespace

// Symptom: a run stood still once in some 1,500. Cause: the memory had version
// s + 1 before the ledger knew; who was given it pushed step s + 1, which the
// ledger dropped as ahead.
BOOST_AUTO_TEST_CASE(a_version_not_known_to_be_applied_is_not_served) {
  PullDesk desk{1};
  desk.want(first, 5);
  BOOST_TEST(desk.serve(0, 4, 4).empty()); // the memory may hold 5 already
  auto answers = desk.serve(0, 4, 5);
  BOOST_TEST_REQUIRE(answers.size() == 1u);
  BOOST_TEST((answers[0].puller == first));
  BOOST_TEST(answers[0].version == 5u);
}

BOOST_AUTO_TEST_CASE(a_version_that_is_overwritten_is_not_served) {
  PullDesk desk{1};
  desk.want(first, 3);
  BOOST_TEST(desk.serve(0, 4, 5).empty());
}

BOOST_AUTO_TEST_CASE(each_slice_is_given_once_to_each) {
  PullDesk desk{2};
  desk.want(first, 0);
  desk.want(second, 0);
  BOOST_TEST(desk.serve(1, 0, 0).size() == 2u);
  BOOST_TEST(desk.serve(1, 0, 0).empty());
  BOOST_TEST(desk.serve(0, 0, 0).size() == 2u);
  BOOST_TEST(desk.serve(0, 0, 0).empty());
}

BOOST_AUTO_TEST_CASE(a_later_wish_replaces_the_one_before) {
  PullDesk desk{1};
  desk.want(first, 1);
  desk.want(first, 2);
  BOOST_TEST(desk.serve(0, 0, 1).empty());
  BOOST_TEST(desk.serve(0, 1, 2).size() == 1u);
}

// Symptom: a run stood still for good (found by simulation). Cause: a late copy
// of an older pull took the place of the newest one, which nobody sends again.
BOOST_AUTO_TEST_CASE(a_late_copy_of_an_older_wish_replaces_nothing) {
  PullDesk desk{1};
  desk.want(first, 37);
  desk.want(first, 28);
  BOOST_TEST(desk.serve(0, 36, 37).size() == 1u);
}

BOOST_AUTO_TEST_CASE(a_reset_forgets_who_waits) {
  PullDesk desk{1};
  desk.want(first, 0);
  desk.reset(1);
  BOOST_TEST(desk.serve(0, 0, 0).empty());
}

BOOST_AUTO_TEST_SUITE_END()
