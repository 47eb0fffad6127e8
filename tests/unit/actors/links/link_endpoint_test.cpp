#include "actors/links/link_endpoint.hpp"

#include <boost/test/unit_test.hpp>

using namespace troupe;

BOOST_AUTO_TEST_SUITE(link_endpoint)

namespace {

LinkEndpoint at(const char* host, const char* mark, uint16_t port = 4000) {
  LinkEndpoint result;
  result.host = host;
  result.port = port;
  result.unix_name = "troupe-1";
  result.host_mark = mark;
  result.id = 0xabcdef0123456789;
  result.key = std::string(32, 'a');
  return result;
}

} // namespace

BOOST_AUTO_TEST_CASE(an_endpoint_travels_as_text) {
  auto back = parse_link_endpoint(at("10.0.0.1", "m").text());
  BOOST_REQUIRE(back);
  BOOST_TEST(back->text() == at("10.0.0.1", "m").text());
  BOOST_TEST(back->address() == "10.0.0.1:4000");
  auto six = parse_link_endpoint(at("2001:db8::7", "m").text());
  BOOST_REQUIRE(six);
  BOOST_TEST(six->host == "2001:db8::7");
  BOOST_TEST(six->address() == "[2001:db8::7]:4000");
  auto local = parse_link_endpoint(at("", "m", 0).text());
  BOOST_REQUIRE(local);
  BOOST_TEST(local->port == 0);
  BOOST_TEST(local->address() == "troupe-1");
}

BOOST_AUTO_TEST_CASE(other_texts_are_no_endpoints) {
  const auto good = at("10.0.0.1", "m").text();
  for (const char* tail : {";", ";key=short", ";id=xyz", ";unix=a b", "0"})
    BOOST_TEST(!parse_link_endpoint(good + tail), tail);
  for (size_t size = 0; size < good.size(); ++size)
    BOOST_TEST(!parse_link_endpoint(good.substr(0, size)), size);
  BOOST_TEST(!parse_link_endpoint(std::string(10'000, ';')));
  BOOST_TEST(parse_link_endpoint(good + ";later=1").has_value());
}

BOOST_AUTO_TEST_CASE(members_of_one_host_share_memory_unless_told_otherwise) {
  const std::vector same{at("127.0.0.1", "a"), at("127.0.0.1", "a", 0)};
  BOOST_TEST(plan_links(same, LinkChoice::automatic).shared);
  BOOST_TEST(plan_links(same, LinkChoice::shm).shared);
  auto forced = plan_links(same, LinkChoice::tcp);
  BOOST_TEST(!forced.shared);
  BOOST_TEST(forced.error.find("rank 1 has no certificates")
             != std::string::npos);
}

BOOST_AUTO_TEST_CASE(hosts_are_listed_by_their_first_ranks) {
  const std::vector mixed{at("10.0.0.2", "b"), at("10.0.0.1", "a"),
                          at("10.0.0.2", "b"), at("10.0.0.3", "c")};
  auto plan = plan_links(mixed, LinkChoice::automatic);
  BOOST_TEST(!plan.shared);
  BOOST_TEST(plan.error == "");
  BOOST_TEST(
    (plan.hosts == std::vector<std::vector<uint32_t>>{{0, 2}, {1}, {3}}));
  BOOST_TEST(plan_links(mixed, LinkChoice::shm).error.find("rank 1")
             != std::string::npos);
}

BOOST_AUTO_TEST_CASE(what_leaves_the_host_is_encrypted_unless_told_otherwise) {
  using enum LinkEncryption;
  const auto here = at("10.0.0.1", "a"), there = at("10.0.0.2", "b");
  BOOST_TEST(encrypts(here, there, automatic));
  BOOST_TEST(!encrypts(here, there, off));
  BOOST_TEST(!encrypts(here, here, automatic));
  BOOST_TEST(encrypts(here, here, on));
  BOOST_TEST(!encrypts(at("127.0.0.1", "a"), at("127.0.0.1", "b"), automatic));
}

BOOST_AUTO_TEST_SUITE_END()
