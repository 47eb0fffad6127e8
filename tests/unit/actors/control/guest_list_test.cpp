#include "actors/control/guest_list.hpp"

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <random>
#include <set>
#include <vector>

using namespace troupe;
using namespace std::chrono_literals;

BOOST_AUTO_TEST_SUITE(guest_list)

namespace {

using Id = GuestList::Id;
using Time = GuestList::Clock::time_point;

} // namespace

BOOST_AUTO_TEST_CASE(who_is_not_let_in_within_two_seconds_has_to_go) {
  GuestList list{8};
  const Time begin{};
  const auto silent = list.arrives(begin).id;
  const auto speaking = list.arrives(begin + 1s).id;
  list.spoke(speaking);
  BOOST_TEST((list.next_deadline() == begin + 2s));
  BOOST_TEST(list.late(begin + 1999ms).empty());
  BOOST_TEST((list.late(begin + 2s) == std::vector<Id>{silent}));
  BOOST_TEST((list.next_deadline() == begin + 3s)); // speaking gains no time
  BOOST_TEST((list.late(begin + 3s) == std::vector<Id>{speaking}));
  BOOST_TEST(list.size() == 0u);
  BOOST_TEST(!list.next_deadline());
}

BOOST_AUTO_TEST_CASE(the_oldest_who_is_silent_goes_before_those_who_speak) {
  GuestList list{3};
  const Time now{};
  const auto member = list.arrives(now).id;
  list.spoke(member);
  const auto first = list.arrives(now).id;
  const auto second = list.arrives(now).id;
  BOOST_TEST(list.arrives(now).gone.value() == first);
  BOOST_TEST(list.arrives(now).gone.value() == second);
  BOOST_TEST(list.size() == 3u);
  list.left(member);
  BOOST_TEST(!list.arrives(now).gone);
}

BOOST_AUTO_TEST_CASE(of_none_but_speakers_the_first_goes) {
  GuestList list{2};
  const Time now{};
  const auto a = list.arrives(now).id;
  const auto b = list.arrives(now).id;
  list.spoke(b);
  list.spoke(a);
  BOOST_TEST(list.arrives(now).gone.value() == b);
  BOOST_TEST(list.room().value() == 3u); // came last, and is silent
  BOOST_TEST(list.room().value() == a);
  BOOST_TEST(!list.room());
}

BOOST_AUTO_TEST_CASE(whatever_happens_no_more_are_there_and_none_stays_on) {
  for (uint32_t seed = 0; seed < 200; ++seed) {
    std::mt19937 draw{seed};
    constexpr size_t most = 5;
    GuestList list{most};
    std::set<Id> here;
    Time now{};
    for (int i = 0; i < 200; ++i) {
      now += std::chrono::milliseconds{draw() % 400};
      const auto any =
        here.empty() ? 0 : *std::next(here.begin(), draw() % here.size());
      switch (draw() % 4) {
        case 0:
          list.spoke(any);
          break;
        case 1:
          list.left(any);
          here.erase(any);
          break;
        default: {
          const auto [id, gone] = list.arrives(now);
          if (gone)
            BOOST_REQUIRE(here.erase(*gone) == 1u);
          BOOST_REQUIRE(here.insert(id).second);
        }
      }
      for (auto id : list.late(now))
        BOOST_REQUIRE(here.erase(id) == 1u);
      BOOST_REQUIRE(list.size() == here.size());
      BOOST_REQUIRE(list.size() <= most);
      if (const auto next = list.next_deadline())
        BOOST_REQUIRE((*next > now && *next <= now + GuestList::patience));
    }
  }
}

BOOST_AUTO_TEST_SUITE_END()
