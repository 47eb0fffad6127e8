#include "actors/certificates/certificate_renewal.hpp"

#include <boost/test/unit_test.hpp>

using namespace troupe;

BOOST_AUTO_TEST_SUITE(renewal_plan)

BOOST_AUTO_TEST_CASE(the_first_attempt_leaves_more_than_half_of_the_time) {
  BOOST_TEST(RenewalPlan(1'000, 1'060).next() == 1'024);
  BOOST_TEST(RenewalPlan(0, 30 * 86'400).next() == 12 * 86'400);
}

BOOST_AUTO_TEST_CASE(failures_are_repeated_and_told_when_time_runs_short) {
  RenewalPlan plan{0, 1'000};
  BOOST_TEST(!plan.failed(400));
  BOOST_TEST(plan.next() == 462);
  BOOST_TEST(plan.failed(760));
  BOOST_TEST(!plan.failed(800)); // told lately
  BOOST_TEST(plan.failed(900));
  BOOST_TEST(plan.failed(2'000)); // it has ended, and one goes on trying
  BOOST_TEST(plan.next() == 2'062);
}

BOOST_AUTO_TEST_SUITE_END()
