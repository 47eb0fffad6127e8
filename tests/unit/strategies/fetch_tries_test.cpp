#include "strategies/fetch_tries.hpp"

#include <boost/test/unit_test.hpp>

#include <string>

using namespace troupe;

BOOST_AUTO_TEST_SUITE(fetch_tries)

namespace {

FetchTries::Options options_of(uint64_t deadline_ms) {
  return {deadline_ms, 4, {100, 1'000}};
}

} // namespace

BOOST_AUTO_TEST_CASE(what_another_try_may_mend_is_tried_until_the_deadline) {
  for (auto end : {FetchEnd::cut, FetchEnd::stalled, FetchEnd::busy,
                   FetchEnd::failed, FetchEnd::unreachable}) {
    FetchTries tries{options_of(3'000), true, 0};
    uint64_t now = 0;
    for (uint64_t rest : {100, 200, 400, 800}) {
      const auto verdict = tries.ended(end, now, 0, 0);
      BOOST_TEST(verdict.again, to_string(end));
      BOOST_TEST(verdict.rest_ms == rest);
      now += rest;
    }
    now = 2'500;
    BOOST_TEST(tries.left_ms(now) == 500u);
    BOOST_TEST(!tries.ended(end, now, 0, 0).again);
    BOOST_TEST(tries.tries() == 5u);
  }
}

BOOST_AUTO_TEST_CASE(what_would_end_alike_is_tried_once) {
  for (auto end : {FetchEnd::whole, FetchEnd::untrusted, FetchEnd::refused,
                   FetchEnd::missing, FetchEnd::changed, FetchEnd::no_ranges,
                   FetchEnd::odd, FetchEnd::ended}) {
    FetchTries tries{options_of(60'000), true, 0};
    BOOST_TEST(!tries.ended(end, 0, 0, 0).again, to_string(end));
  }
}

BOOST_AUTO_TEST_CASE(a_host_that_never_answered_gets_few_tries) {
  FetchTries tries{options_of(60'000), false, 0};
  for (int i = 0; i < 3; ++i)
    BOOST_TEST(tries.ended(FetchEnd::unreachable, 0, 0, 0).again);
  const auto last = tries.ended(FetchEnd::unresolved, 0, 0, 0);
  BOOST_TEST(!last.again);
  BOOST_TEST(std::string{last.reason} == "nothing has ever answered there");
}

BOOST_AUTO_TEST_CASE(an_answer_is_one_whatever_it_says) {
  FetchTries tries{options_of(60'000), false, 0};
  BOOST_TEST(tries.ended(FetchEnd::busy, 0, 0, 0).again);
  for (int i = 0; i < 9; ++i)
    BOOST_TEST(tries.ended(FetchEnd::unreachable, 0, 0, 0).again);
}

BOOST_AUTO_TEST_CASE(a_rest_is_as_long_as_the_server_asks_for) {
  FetchTries tries{options_of(60'000), true, 0};
  BOOST_TEST(tries.ended(FetchEnd::busy, 0, 7'000, 0).rest_ms == 7'000u);
  // But not beyond the deadline: then it is over at once.
  BOOST_TEST(!tries.ended(FetchEnd::busy, 7'000, 60'000, 0).again);
}

BOOST_AUTO_TEST_SUITE_END()
