// Symptom: of a thousand roles that a coordinator had turned away at once all
// came again at once, 100 ms later, and were turned away again.

#include "strategies/growing_rest.hpp"

#include <boost/test/unit_test.hpp>

#include <set>

using namespace troupe;

BOOST_AUTO_TEST_SUITE(growing_rest)

BOOST_AUTO_TEST_CASE(a_rest_doubles_up_to_the_longest) {
  GrowingRest it{{100, 1'000}};
  for (uint64_t whole : {100, 200, 400, 800, 1'000, 1'000})
    BOOST_TEST(it.next_ms(0) == whole);
}

BOOST_AUTO_TEST_CASE(chance_takes_up_to_half_of_it) {
  std::set<uint64_t> seen;
  for (uint64_t drawn = 0; drawn < 1'000; ++drawn) {
    GrowingRest it{{100, 1'000}};
    const auto rest = it.next_ms(drawn);
    BOOST_TEST(rest >= 50u);
    BOOST_TEST(rest <= 100u);
    seen.insert(rest);
  }
  BOOST_TEST(seen.size() == 51u);
}

BOOST_AUTO_TEST_CASE(what_was_drawn_does_not_change_how_rests_grow) {
  GrowingRest it{{100, 1'000}};
  it.next_ms(50);
  BOOST_TEST(it.next_ms(0) == 200u);
}

BOOST_AUTO_TEST_CASE(after_an_answer_it_begins_anew) {
  GrowingRest it{{100, 1'000}};
  for (int tries = 0; tries < 9; ++tries)
    it.next_ms(7);
  it.begin();
  BOOST_TEST(it.next_ms(0) == 100u);
}

BOOST_AUTO_TEST_CASE(a_rest_may_be_as_short_as_a_millisecond) {
  GrowingRest it{{1, 1}};
  BOOST_TEST(it.next_ms(1) == 1u);
  BOOST_TEST(it.next_ms(~uint64_t{0}) == 1u);
}

BOOST_AUTO_TEST_SUITE_END()
