#include "actors/wire/error_line.hpp"

#include <boost/test/unit_test.hpp>

using namespace troupe;

BOOST_AUTO_TEST_SUITE(error_line)

namespace {

bool speaks_of_caf(const std::string& line) {
  for (const auto* word : {"caf", "sec", "exit_reason", "::", "_"})
    if (line.find(word) != std::string::npos)
      return true;
  return false;
}

} // namespace

BOOST_AUTO_TEST_CASE(a_refusal_is_the_line_that_it_was_made_with) {
  BOOST_TEST(line_of(caf::make_error(caf::sec::invalid_argument,
                                     "another switch is under way"))
             == "another switch is under way");
}

// An error that is none has no context: asking it for one ended the process.
BOOST_AUTO_TEST_CASE(an_error_that_is_none_has_a_line) {
  BOOST_TEST(line_of(caf::error{}) == "it has ended");
  BOOST_TEST(line_of(caf::sec::none) == "it has ended");
}

BOOST_AUTO_TEST_CASE(reasons_without_a_line_are_put_into_words) {
  for (const caf::error& why :
       {caf::error{caf::sec::request_timeout},
        caf::error{caf::sec::request_receiver_down},
        caf::error{caf::sec::broken_promise},
        caf::error{caf::sec::cannot_connect_to_node},
        caf::error{caf::sec::remote_lookup_failed},
        caf::error{caf::sec::end_of_stream},
        caf::error{caf::sec::runtime_error}, caf::error{caf::exit_reason::kill},
        caf::error{caf::exit_reason::unreachable},
        caf::error{caf::exit_reason::remote_link_unreachable},
        caf::make_error(caf::sec::invalid_argument, 7)}) {
    const auto line = line_of(why);
    BOOST_TEST(!line.empty());
    BOOST_TEST(!speaks_of_caf(line), line);
  }
}

BOOST_AUTO_TEST_SUITE_END()
