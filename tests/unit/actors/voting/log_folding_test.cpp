#include "actors/voting/log_folding.hpp"

#include <boost/test/unit_test.hpp>

using namespace troupe;

BOOST_AUTO_TEST_SUITE(log_folding)

static JournalEvent entry(uint64_t id, uint64_t term) {
  return {id, 0, term, "note", "{}"};
}

BOOST_AUTO_TEST_CASE(a_journal_from_its_first_event_on_is_not_folded) {
  BOOST_TEST((shape_of({}).end() == LogEnd{}));
  const auto shape = shape_of({entry(1, 1), entry(2, 1), entry(3, 4)});
  BOOST_TEST((shape.base == LogEnd{}));
  BOOST_TEST((shape.terms == std::vector<uint64_t>{1, 1, 4}));
}

BOOST_AUTO_TEST_CASE(what_comes_before_the_last_gap_is_folded) {
  const auto shape = shape_of(
    {entry(1, 1), entry(4, 2), entry(9, 2), entry(10, 3), entry(11, 3)});
  BOOST_TEST((shape.base == LogEnd{2, 9}));
  BOOST_TEST((shape.terms == std::vector<uint64_t>{3, 3}));
  BOOST_TEST((shape.end() == LogEnd{3, 11}));
  BOOST_TEST(!shape.term_of(8).has_value());
  BOOST_TEST(shape.term_of(10).value() == 3u);
  BOOST_TEST((shape_of({entry(7, 2)}).base == LogEnd{2, 7}));
}

BOOST_AUTO_TEST_SUITE_END()
