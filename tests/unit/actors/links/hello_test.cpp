#include "actors/links/hello.hpp"

#include <boost/test/unit_test.hpp>

#include <random>

using namespace troupe;

BOOST_AUTO_TEST_SUITE(hello)

namespace {

LinkHello some_hello() {
  LinkHello hello;
  hello.purpose = LinkPurpose::channel;
  hello.key = std::string(32, 'k');
  hello.id = 0xfedcba9876543210;
  hello.fence = {1, 2, 3};
  hello.name = "gradients";
  hello.from = "worker:7";
  hello.rank = 7;
  hello.members = 9;
  hello.encrypted = hello.segment = true;
  return hello;
}

std::string body(const std::string& greeting) {
  return greeting.substr(4);
}

} // namespace

BOOST_AUTO_TEST_CASE(greetings_arrive_as_they_were_sent) {
  BOOST_TEST((decode_hello(body(encode(some_hello()))) == some_hello()));
  LinkWelcome welcome{77, "no room", true, true};
  BOOST_TEST((decode_welcome(body(encode(welcome))) == welcome));
}

BOOST_AUTO_TEST_CASE(a_greeting_cut_or_prolonged_anywhere_is_none) {
  const auto whole = body(encode(some_hello()));
  // Another revision's, of which only the number is known, begins alike.
  for (size_t size = 0; size < whole.size(); ++size)
    BOOST_TEST(!decode_hello(std::span{whole.data(), size}), size);
  BOOST_TEST(!decode_hello(whole + 'x'));
  const auto answer = body(encode(LinkWelcome{77, "no", false, false}));
  for (size_t size = 0; size < answer.size(); ++size)
    BOOST_TEST(!decode_welcome(std::span{answer.data(), size}), size);
}

BOOST_AUTO_TEST_CASE(another_revision_is_known_by_its_number) {
  auto other = some_hello();
  other.revision = link_revision + 1;
  auto found = decode_hello(body(encode(other)) + "something new");
  BOOST_REQUIRE(found);
  BOOST_TEST(found->revision == link_revision + 1);
}

BOOST_AUTO_TEST_CASE(whatever_is_taken_for_a_greeting_is_one) {
  const auto whole = body(encode(some_hello()));
  std::mt19937 draw{5};
  int taken = 0;
  for (int round = 0; round < 20'000; ++round) {
    auto bytes = whole;
    for (auto changes = 1 + draw() % 3; changes > 0; --changes)
      bytes[draw() % bytes.size()] = static_cast<char>(draw());
    auto found = decode_hello(bytes);
    if (!found || found->revision != link_revision)
      continue;
    ++taken;
    BOOST_REQUIRE(body(encode(*found)) == bytes);
  }
  BOOST_TEST(taken > 0);
}

BOOST_AUTO_TEST_CASE(names_that_cannot_be_shown_are_refused) {
  auto bad = some_hello();
  bad.from = "worker\n7";
  BOOST_TEST(!decode_hello(body(encode(bad))));
}

BOOST_AUTO_TEST_CASE(a_long_refusal_is_cut_and_still_fits) {
  LinkWelcome welcome{1, std::string(5000, 'w'), false, false};
  const auto greeting = body(encode(welcome));
  BOOST_TEST(greeting.size() <= largest_greeting);
  BOOST_TEST(decode_welcome(greeting)->refusal.size() == longest_refusal);
}

BOOST_AUTO_TEST_SUITE_END()
