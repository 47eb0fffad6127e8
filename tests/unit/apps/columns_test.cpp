#include "apps/terminal/columns.hpp"

#include <boost/test/unit_test.hpp>

using namespace troupe;

BOOST_AUTO_TEST_SUITE(terminal_columns)

BOOST_AUTO_TEST_CASE(a_character_takes_a_column) {
  BOOST_TEST(columns_of("") == 0u);
  BOOST_TEST(columns_of("plain") == 5u);
  BOOST_TEST(columns_of("naïve — 木") == 9u);
}

BOOST_AUTO_TEST_CASE(a_text_is_cut_between_characters) {
  BOOST_TEST(cut_to(3, "naïve") == "naï");
  BOOST_TEST(cut_to(5, "naïve") == "naïve");
  BOOST_TEST(cut_to(9, "naïve") == "naïve");
  BOOST_TEST(cut_to(0, "naïve") == "");
}

BOOST_AUTO_TEST_CASE(what_is_left_out_is_shown_as_dots) {
  BOOST_TEST(shortened_to(4, "naïve") == "naï…");
  BOOST_TEST(shortened_to(5, "naïve") == "naïve");
  BOOST_TEST(shortened_to(1, "naïve") == "…");
  BOOST_TEST(shortened_to(0, "naïve") == "");
}

BOOST_AUTO_TEST_SUITE_END()
