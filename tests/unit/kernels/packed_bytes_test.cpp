#include "kernels/files/packed_bytes.hpp"

#include <boost/test/unit_test.hpp>

using namespace troupe;

BOOST_AUTO_TEST_SUITE(packed_bytes)

BOOST_AUTO_TEST_CASE(what_was_packed_is_unpacked_and_nothing_else) {
  const std::string bytes = std::string(100'000, '\0') + "end";
  const auto small = packed(bytes);
  BOOST_TEST(small.size() < 200u);
  BOOST_TEST((unpacked(small, bytes.size()) == bytes));
  BOOST_TEST((unpacked(packed(""), 0) == std::string{}));
  // A few bytes that announce more than there is room for.
  BOOST_TEST(!unpacked(small, bytes.size() - 1));
  BOOST_TEST(!unpacked(small.substr(0, small.size() - 1), bytes.size()));
  BOOST_TEST(!unpacked("no frame", 1'000));
  BOOST_TEST(!unpacked("", 1'000));
}

BOOST_AUTO_TEST_SUITE_END()
