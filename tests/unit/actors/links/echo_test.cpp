// Symptom: a member that was left out for a link on which large packets got
// lost tried it by a connection alone, which small packets make; it came back,
// and was left out again, time after time.

#include "actors/links/echo.hpp"
#include "tests/unit/actors/links/link_pair.hpp"
#include "tests/unit/actors/links/link_party.hpp"

using namespace troupe;
using namespace troupe::test;

BOOST_AUTO_TEST_SUITE(echo)

namespace {

bool works(Party& party, const LinkTrial& trial) {
  std::promise<bool> done;
  party.nodes[1]->try_link(trial, [&](bool all) { done.set_value(all); });
  return done.get_future().get();
}

/// Asks over a socket pair, whose other end `answer` has.
bool heard(const std::function<void(RawEnd&)>& answer,
           Clock::duration deadline) {
  auto ends = socket_pair();
  RawEnd other{std::move(ends[1])};
  std::promise<bool> done;
  std::unique_ptr<Echo> asks;
  IoLoop loop; // its end is that of the thread that has the echo
  loop.post([&] {
    asks = std::make_unique<Echo>(loop, std::move(ends[0]), Echo::Side::asks,
                                  Clock::now() + deadline,
                                  [&](bool all) { done.set_value(all); });
  });
  answer(other);
  const bool all = done.get_future().get();
  loop.post([&] { asks.reset(); });
  loop.stop();
  return all;
}

/// All that is asked.
std::vector<std::byte> asked_of(RawEnd& other) {
  std::vector<std::byte> all;
  BOOST_REQUIRE(soon([&] {
    const auto some = other.receive();
    all.insert(all.end(), some.begin(), some.end());
    return all.size() == echo_bytes;
  }));
  return all;
}

} // namespace

BOOST_AUTO_TEST_CASE(a_link_that_works_carries_all_of_it_back) {
  NothingLeft nothing_left;
  for (const auto& with : {options(), options(LinkChoice::tcp),
                           options(LinkChoice::tcp, LinkEncryption::on)}) {
    Party party{2, with};
    for (int i = 0; i < 3; ++i)
      BOOST_TEST(works(party, {"worker:1", party.nodes[0]->endpoint(),
                               "worker:0", Clock::now() + patience}));
  }
  BOOST_TEST(nothing_left.check());
}

BOOST_AUTO_TEST_CASE(one_that_cannot_be_made_does_not_work) {
  Party party{2};
  const auto there = party.nodes[0]->endpoint();
  BOOST_TEST(!works(party, {"worker:1", "nowhere", "worker:0",
                            Clock::now() + patience}));
  party.nodes[0].reset();
  BOOST_TEST(
    !works(party, {"worker:1", there, "worker:0", Clock::now() + patience}));
}

BOOST_AUTO_TEST_CASE(only_all_that_was_said_is_its_echo) {
  BOOST_TEST(
    heard([](RawEnd& other) { other.send(asked_of(other)); }, patience));
  BOOST_TEST(!heard(
    [](RawEnd& other) {
      auto all = asked_of(other);
      all[all.size() / 2] ^= std::byte{1};
      other.send(all);
    },
    patience));
}

BOOST_AUTO_TEST_CASE(silence_and_a_stream_that_ends_are_none) {
  BOOST_TEST(!heard([](RawEnd& other) { asked_of(other); }, 50ms));
  BOOST_TEST(!heard([](RawEnd&) {}, 50ms));
  BOOST_TEST(!heard(
    [](RawEnd& other) {
      auto all = asked_of(other);
      all.pop_back(); // what got through before it ended
      other.send(all);
      other.socket.reset();
    },
    patience));
}

BOOST_AUTO_TEST_SUITE_END()
