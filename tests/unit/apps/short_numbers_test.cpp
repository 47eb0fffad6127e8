#include "apps/terminal/short_numbers.hpp"

#include <boost/test/unit_test.hpp>

#include <limits>

using namespace troupe;

BOOST_AUTO_TEST_SUITE(short_numbers)

namespace {

constexpr auto unknown = std::numeric_limits<double>::quiet_NaN();

} // namespace

BOOST_AUTO_TEST_CASE(numbers_are_short) {
  BOOST_TEST(short_number(0) == "0.0");
  BOOST_TEST(short_number(12.34) == "12.3");
  BOOST_TEST(short_number(9999) == "9999");
  BOOST_TEST(short_number(12'345) == "12.3k");
  BOOST_TEST(short_number(1.25e6) == "1.25M");
  BOOST_TEST(short_number(unknown) == "-");
  BOOST_TEST(short_number(-1) == "-");
}

BOOST_AUTO_TEST_CASE(bytes_have_a_unit) {
  BOOST_TEST(short_bytes(912) == "912 B");
  BOOST_TEST(short_bytes(1536) == "1.5 KiB");
  BOOST_TEST(short_bytes(200.0 * 1024 * 1024) == "200 MiB");
  BOOST_TEST(short_bytes(unknown) == "-");
}

BOOST_AUTO_TEST_CASE(durations_are_those_of_a_clock) {
  BOOST_TEST(short_duration(0) == "0:00");
  BOOST_TEST(short_duration(66.6) == "1:07");
  BOOST_TEST(short_duration(3723) == "1:02:03");
  BOOST_TEST(short_duration(1e9) == "99:59:59");
  BOOST_TEST(short_duration(unknown) == "-");
  BOOST_TEST(short_duration(-1) == "-");
}

BOOST_AUTO_TEST_SUITE_END()
