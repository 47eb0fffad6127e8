#include "strategies/credit_window.hpp"

#include <boost/test/unit_test.hpp>

#include <deque>
#include <random>

using namespace troupe;

BOOST_AUTO_TEST_SUITE(credit_window)

BOOST_AUTO_TEST_CASE(nothing_is_sent_before_it_is_granted) {
  CreditWindow window;
  BOOST_TEST(!window.take(1));
  window.grant(10);
  BOOST_TEST(window.take(10));
  BOOST_TEST(!window.take(1));
}

BOOST_AUTO_TEST_CASE(an_old_or_repeated_grant_does_nothing) {
  CreditWindow window;
  window.grant(10);
  BOOST_TEST(window.take(6));
  window.grant(10);
  window.grant(3);
  BOOST_TEST(window.available() == 4u);
}

BOOST_AUTO_TEST_CASE(a_sender_that_overruns_its_credit_is_seen) {
  CreditSource source(100);
  BOOST_TEST(!source.arrive(1));
  BOOST_TEST(source.renew(0) == 100u);
  BOOST_TEST(source.arrive(100));
  BOOST_TEST(!source.arrive(1));
}

BOOST_AUTO_TEST_CASE(any_order_of_events_keeps_the_bound_and_comes_to_an_end) {
  // I10 and I11: with grants delayed at random, bytes in flight stay within
  // the window, and everything gets across with few grants.
  constexpr uint64_t window_bytes = 1000;
  constexpr uint64_t total = 200'000;
  for (uint32_t seed = 0; seed < 200; ++seed) {
    std::mt19937 random(seed);
    CreditWindow sender;
    CreditSource receiver(window_bytes);
    std::deque<uint64_t> data;
    std::deque<uint64_t> grants;
    uint64_t sent = 0;
    uint64_t arrived = 0;
    uint64_t consumed = 0;
    uint64_t granted = 0;
    auto renew = [&] {
      if (auto grant = receiver.renew(consumed); grant != 0) {
        grants.push_back(grant);
        ++granted;
      }
    };
    renew();
    for (int event = 0; consumed < total && event < 1'000'000; ++event)
      switch (random() % 4) {
        case 0: {
          const auto frame = std::min<uint64_t>(1 + random() % 300,
                                                total - sent);
          if (frame > 0 && sender.take(frame)) {
            data.push_back(frame);
            sent += frame;
          }
          break;
        }
        case 1:
          if (!data.empty()) {
            BOOST_REQUIRE(receiver.arrive(data.front()));
            arrived += data.front();
            data.pop_front();
          }
          break;
        case 2:
          if (!grants.empty()) {
            sender.grant(grants.front());
            grants.pop_front();
          }
          break;
        default:
          consumed += std::min<uint64_t>(random() % 400, arrived - consumed);
          renew();
          BOOST_REQUIRE_LE(sent - consumed, window_bytes);
      }
    BOOST_REQUIRE_EQUAL(consumed, total);
    BOOST_TEST(granted <= 2 * total / window_bytes + 1);
  }
}

BOOST_AUTO_TEST_SUITE_END()
