#include "actors/sockets/endpoint.hpp"

#include <boost/test/unit_test.hpp>

// `--listen [::1]:0` was "in use or not an address of this machine": the
// brackets were taken for a part of the address.

using namespace troupe;

BOOST_AUTO_TEST_SUITE(endpoint)

BOOST_AUTO_TEST_CASE(an_ipv6_address_stands_in_brackets) {
  const auto found = parse_endpoint("[2001:db8::7]:7000");
  BOOST_REQUIRE(found.has_value());
  BOOST_TEST(found->host == "2001:db8::7");
  BOOST_TEST(found->port == 7000);
  BOOST_TEST(to_string(*found) == "[2001:db8::7]:7000");
  const auto several = parse_endpoints("[::1]:1,127.0.0.1:2,host:3");
  BOOST_REQUIRE(several.size() == 3u);
  BOOST_TEST(several[0].host == "::1");
  BOOST_TEST(to_string(several[1]) == "127.0.0.1:2");
  BOOST_TEST(to_string(several[2]) == "host:3");
}

BOOST_AUTO_TEST_CASE(what_is_ambiguous_or_incomplete_is_none) {
  for (const auto* text :
       {"::1:7000", "[::1]", "[]:7000", "[::1:7000", "::1]:7", "a[b]:7", "[[]:7",
        "[a]b]:7", ":7000", "host", "host:", "host:65536"})
    BOOST_TEST(!parse_endpoint(text), text);
}

BOOST_AUTO_TEST_SUITE_END()
