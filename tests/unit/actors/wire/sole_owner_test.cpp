// Memory that is used again once the others have let go of it. Under the thread
// sanitizer (tests/sanitize thread) a missing order is a finding here.
#include "actors/wire/sole_owner.hpp"

#include <boost/test/unit_test.hpp>

#include <memory>
#include <thread>
#include <utility>

using troupe::sole_owner;

BOOST_AUTO_TEST_SUITE(sole_owner_suite)

BOOST_AUTO_TEST_CASE(who_alone_holds_it_is_its_sole_owner) {
  const auto held = std::make_shared<int>(1);
  BOOST_TEST(sole_owner(held));
  auto other = held;
  BOOST_TEST(!sole_owner(held));
  BOOST_TEST(!sole_owner(other));
  other.reset();
  BOOST_TEST(sole_owner(held));
  BOOST_TEST(held.use_count() == 1);
}

BOOST_AUTO_TEST_CASE(what_another_thread_wrote_before_it_let_go_is_seen) {
  const auto held = std::make_shared<int>(0);
  for (int round = 1; round <= 200; ++round) {
    std::thread other{[mine = held, round]() mutable {
      *mine = round;
      mine.reset();
    }};
    // The lambda's own copy has gone with the move into the thread.
    while (!sole_owner(held))
      std::this_thread::yield();
    BOOST_REQUIRE(*held == round);
    *held = 0;
    other.join();
  }
}

BOOST_AUTO_TEST_SUITE_END()
