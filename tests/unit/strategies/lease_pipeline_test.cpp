#include "strategies/lease_pipeline.hpp"

#include <boost/test/unit_test.hpp>

using namespace troupe;

BOOST_AUTO_TEST_SUITE(lease_pipeline)

BOOST_AUTO_TEST_CASE(one_lease_follows_the_other) {
  LeasePipeline leases{false};
  BOOST_TEST(!leases.pull());
  leases.granted({4, 7});
  BOOST_TEST(leases.pull().value() == 4u);
  BOOST_TEST(leases.following().value() == 7u);
  BOOST_TEST(!leases.compute()); // its parameters are not there
  leases.pulled();
  BOOST_TEST(leases.compute().value() == 4u);
  BOOST_TEST(!leases.pull());
  leases.computed();
  BOOST_TEST(!leases.compute());
  BOOST_TEST(leases.pull().value() == 7u);
  BOOST_TEST(!leases.following());
}

BOOST_AUTO_TEST_CASE(ahead_one_is_pulled_for_while_another_is_computed) {
  LeasePipeline leases{true};
  leases.granted({4, 7, 9});
  leases.pull();
  leases.pulled();
  leases.compute();
  BOOST_TEST(leases.pull().value() == 7u);
  BOOST_TEST(leases.pulling());
  leases.pulled();
  BOOST_TEST(!leases.pull());    // one ahead, not two
  BOOST_TEST(!leases.compute()); // one at a time
  leases.computed();
  BOOST_TEST(leases.compute().value() == 7u);
  BOOST_TEST(leases.pull().value() == 9u);
  leases.computed();
  BOOST_TEST(!leases.compute()); // still being pulled for
  leases.pulled();
  BOOST_TEST(leases.compute().value() == 9u);
}

BOOST_AUTO_TEST_CASE(more_are_asked_for_once_when_few_are_left) {
  LeasePipeline leases{false};
  BOOST_TEST(leases.ask());
  BOOST_TEST(!leases.ask());
  leases.granted({0, 1, 2});
  BOOST_TEST(!leases.ask());
  leases.pull();
  BOOST_TEST(leases.ask());
  leases.clear();
  BOOST_TEST(leases.ask()); // the answer was of another epoch
  BOOST_TEST(!leases.pull());
}

BOOST_AUTO_TEST_SUITE_END()
