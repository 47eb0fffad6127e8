#include "actors/certificates/member_name.hpp"

#include <boost/test/unit_test.hpp>

using namespace troupe;

BOOST_AUTO_TEST_SUITE(member_name)

BOOST_AUTO_TEST_CASE(each_name_is_read_as_it_is_written) {
  for (const auto* text :
       {"coordinator", "worker:0", "worker:4294967295", "ps:3", "evaluator:0",
        "voter", "supervisor", "operator", "authority:1"}) {
    const auto name = parse_member_name(text);
    BOOST_TEST_REQUIRE(name.has_value(), text);
    BOOST_TEST(to_string(*name) == text);
    BOOST_CHECK(name_of_uri(uri_of(*name)) == name);
  }
  BOOST_CHECK(name_of({RoleKind::shard, 3}) == parse_member_name("ps:3"));
  BOOST_TEST(file_stem(*parse_member_name("ps:3")) == "ps-3");
}

BOOST_AUTO_TEST_CASE(nothing_else_is_a_name) {
  for (const auto* text :
       {"", "nobody", "worker", "worker:", "worker:-1", "worker:01",
        "worker:+1", "worker:1 ", "worker:4294967296", "operator:0",
        "coordinator:0", "ps:1:2", "Worker:1"})
    BOOST_TEST(!parse_member_name(text).has_value(), text);
  for (const auto* uri : {"worker:1", "troupe:", "troupe:nobody",
                          "https://example.org/troupe:worker:1"})
    BOOST_TEST(!name_of_uri(uri).has_value(), uri);
}

BOOST_AUTO_TEST_SUITE_END()
