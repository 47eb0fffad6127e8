#include "strategies/collective_verdict.hpp"

#include <boost/test/unit_test.hpp>

using namespace troupe;

BOOST_AUTO_TEST_SUITE(collective_verdict_suite)

namespace {

CollectiveDecision decide(const std::vector<CollectiveSeal>& seals) {
  CollectiveVerdict verdict{static_cast<uint32_t>(seals.size())};
  for (uint32_t m = 0; m < seals.size(); ++m)
    verdict.seal(m, seals[m]);
  BOOST_REQUIRE(verdict.complete());
  return verdict.decide();
}

} // namespace

BOOST_AUTO_TEST_CASE(a_call_that_one_is_done_with_counts_for_all) {
  // Member 1 got its confirmation and went on to call 8; the others' was cut.
  const auto decision = decide({{7, true}, {8, false}, {7, true}});
  BOOST_CHECK(decision.sound);
  BOOST_CHECK_EQUAL(decision.counted, 8u);
}

BOOST_AUTO_TEST_CASE(a_call_that_one_lacks_fails_for_all) {
  const auto decision = decide({{7, true}, {7, false}, {7, true}});
  BOOST_CHECK(decision.sound);
  BOOST_CHECK_EQUAL(decision.counted, 7u);
  BOOST_CHECK(decision.reason.find("member 1 lacks call 7")
              != std::string::npos);
}

BOOST_AUTO_TEST_CASE(a_call_that_all_have_counts_though_nobody_knew) {
  const auto decision = decide({{3, true}, {3, true}});
  BOOST_CHECK(decision.sound);
  BOOST_CHECK_EQUAL(decision.counted, 4u);
}

BOOST_AUTO_TEST_CASE(seals_that_contradict_each_other_are_noticed) {
  const auto decision = decide({{5, false}, {4, false}});
  BOOST_CHECK(!decision.sound);
  BOOST_CHECK(decision.reason.find("member 0") != std::string::npos);
  BOOST_CHECK(decision.reason.find("member 1 lacks call 4")
              != std::string::npos);
}

BOOST_AUTO_TEST_CASE(it_waits_for_all_and_a_first_seal_holds) {
  CollectiveVerdict verdict{2};
  verdict.seal(1, {2, true});
  BOOST_CHECK(!verdict.complete());
  BOOST_CHECK(verdict.missing() == std::vector<uint32_t>{0});
  verdict.seal(1, {9, false});
  verdict.seal(0, {2, false});
  BOOST_CHECK_EQUAL(verdict.decide().counted, 2u);
}

BOOST_AUTO_TEST_SUITE_END()
