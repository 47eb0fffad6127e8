#include "apps/terminal/numbers.hpp"
#include "kernels/base/error.hpp"

#include <boost/test/unit_test.hpp>

using namespace troupe;

BOOST_AUTO_TEST_SUITE(numbers_suite)

BOOST_AUTO_TEST_CASE(bytes_are_digits_and_a_unit) {
  BOOST_TEST(parse_bytes("4", 4, 1 << 30) == 4u);
  BOOST_TEST(parse_bytes("64KiB", 4, 1 << 30) == 65'536u);
  BOOST_TEST(parse_bytes("3MiB", 4, 1 << 30) == 3u << 20);
  BOOST_TEST(parse_bytes("1GiB", 4, 1 << 30) == 1u << 30);
}

BOOST_AUTO_TEST_CASE(bytes_out_of_range_or_of_other_units_are_refused) {
  for (const auto* text : {"", "KiB", "3", "2GiB", "1MB", "1 KiB", "-4", "4k",
                           "18446744073709551616", "1.5KiB"})
    BOOST_CHECK_THROW(parse_bytes(text, 4, 1 << 30), UsageError);
}

BOOST_AUTO_TEST_CASE(a_list_keeps_empty_words) {
  const std::vector<std::string> words{"1", "", "3"};
  BOOST_TEST(split_list("1,,3") == words, boost::test_tools::per_element());
  BOOST_TEST(split_list("").size() == 1u);
}

BOOST_AUTO_TEST_SUITE_END()
