#include "kernels/base/suggestion.hpp"

#include <boost/test/unit_test.hpp>

using namespace troupe;

BOOST_AUTO_TEST_SUITE(suggestion_suite)

BOOST_AUTO_TEST_CASE(edits_are_counted) {
  BOOST_CHECK_EQUAL(edit_distance("", ""), 0);
  BOOST_CHECK_EQUAL(edit_distance("", "abc"), 3);
  BOOST_CHECK_EQUAL(edit_distance("lr", "lr"), 0);
  BOOST_CHECK_EQUAL(edit_distance("epoch", "epochs"), 1);
  BOOST_CHECK_EQUAL(edit_distance("trian", "train"), 1);
  BOOST_CHECK_EQUAL(edit_distance("kitten", "sitting"), 3);
}

BOOST_AUTO_TEST_CASE(the_nearest_word_is_found_and_nothing_far_away) {
  const std::vector<std::string> known{"workers", "epochs", "lr", "ps"};
  BOOST_CHECK_EQUAL(nearest("worker", known), "workers");
  BOOST_CHECK_EQUAL(nearest("epcohs", known), "epochs");
  BOOST_CHECK_EQUAL(nearest("banana", known), "");
  BOOST_CHECK_EQUAL(nearest("", known), "");
  BOOST_CHECK_EQUAL(nearest(std::string(10'000, 'w'), known), "");
}

BOOST_AUTO_TEST_SUITE_END()
