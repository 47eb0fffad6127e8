#include "kernels/files/shown_text.hpp"

#include <boost/test/unit_test.hpp>

using namespace troupe;

BOOST_AUTO_TEST_SUITE(shown_text_test)

BOOST_AUTO_TEST_CASE(text_of_any_language_stays_as_it_is) {
  for (const char* text : {"", "plain", "wörds, ∑ more", "𝔘𝔫𝔦", "a b"})
    BOOST_TEST(shown_text(text) == text);
}

BOOST_AUTO_TEST_CASE(what_steers_a_terminal_becomes_a_question_mark) {
  BOOST_TEST(shown_text("\x1b[2J") == "?[2J");
  BOOST_TEST(shown_text("a\nb\tc\x7f") == "a?b?c?");
  BOOST_TEST(shown_text("\xc2\x9b"
                        "31m")
             == "?31m"); // C1, in UTF-8
  BOOST_TEST(shown_text("\xe2\x80\xae"
                        "desrever")
             == "?desrever"); // right to left
  BOOST_TEST(shown_text(std::string_view{"\0", 1}) == "?");
}

BOOST_AUTO_TEST_CASE(bytes_that_are_not_utf8_become_question_marks) {
  BOOST_TEST(shown_text("\x9b") == "?");
  BOOST_TEST(shown_text("\xc0\xaf") == "??");           // too long a form
  BOOST_TEST(shown_text("\xed\xa0\x80") == "???");      // a surrogate
  BOOST_TEST(shown_text("a\xe2\x82") == "a??");         // cut
  BOOST_TEST(shown_text("\xf4\x90\x80\x80") == "????"); // beyond the last
}

BOOST_AUTO_TEST_SUITE_END()
