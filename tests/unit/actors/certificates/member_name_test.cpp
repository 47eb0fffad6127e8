#include "actors/certificates/member_name.hpp"

#include <boost/test/unit_test.hpp>

using namespace troupe;

BOOST_AUTO_TEST_SUITE(member_name)

BOOST_AUTO_TEST_CASE(each_name_is_read_as_it_is_written) {
  for (const auto* text :
       {"coordinator", "worker:0", "worker:4294967295", "ps:3", "evaluator:0",
        "voter", "supervisor", "operator", "authority:1", "sharded:2"}) {
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

BOOST_AUTO_TEST_CASE(
  a_sharded_member_is_the_worker_and_the_shard_of_its_number) {
  const auto name = [](const char* text) { return *parse_member_name(text); };
  for (const auto* own : {"worker:2", "ps:2", "sharded:2"})
    BOOST_TEST(speaks_for(name("sharded:2"), name(own)), own);
  for (const auto* other : {"worker:1", "ps:3", "sharded:1", "stage:2",
                            "evaluator:2", "coordinator", "operator"})
    BOOST_TEST(!speaks_for(name("sharded:2"), name(other)), other);
  BOOST_TEST(speaks_for(name("worker:2"), name("worker:2")));
  BOOST_TEST(!speaks_for(name("worker:2"), name("ps:2")));
  BOOST_TEST(!speaks_for(name("ps:2"), name("sharded:2")));
}

BOOST_AUTO_TEST_SUITE_END()
