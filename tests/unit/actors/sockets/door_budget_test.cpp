#include "actors/sockets/door_budget.hpp"

#include <boost/test/unit_test.hpp>

#include <string>

using namespace troupe;
using namespace std::chrono_literals;

BOOST_AUTO_TEST_SUITE(door_budget)

namespace {

using Cost = DoorBudget::Cost;

const DoorBudget::Clock::time_point begin_of_day{24h};

/// Hears or sends away whoever comes, in turns of so much of the processor;
/// returns what was spent in that time.
Cost spent_in(DoorBudget& budget, std::chrono::seconds time, int networks) {
  constexpr Cost hearing = 300us;
  constexpr Cost refusal = 15us;
  Cost out{};
  auto now = begin_of_day;
  for (uint64_t turn = 0; now < begin_of_day + time; ++turn) {
    if (const auto until = budget.rests_until(now)) {
      now = *until;
      continue;
    }
    const auto from = std::to_string(turn % static_cast<uint64_t>(networks));
    const auto heard = budget.hears(from, now);
    const auto cost = heard ? hearing : refusal;
    if (heard)
      budget.spend(from, cost, now);
    else
      budget.turn_away(cost, now);
    out += cost + DoorBudget::beside;
    now += cost;
  }
  return out;
}

} // namespace

BOOST_AUTO_TEST_CASE(strangers_cost_a_burst_and_then_a_small_share) {
  for (int networks : {1, 2, 1000}) {
    DoorBudget budget{1};
    const auto most = DoorBudget::burst + Cost{60s} / DoorBudget::share + 1ms;
    BOOST_TEST((spent_in(budget, 60s, networks) <= most));
  }
}

BOOST_AUTO_TEST_CASE(who_comes_from_elsewhere_is_heard_beside_a_crowd) {
  DoorBudget budget{1};
  auto now = begin_of_day;
  while (budget.hears("crowd", now))
    budget.spend("crowd", 300us, now);
  BOOST_TEST(budget.hears("other", now));
  BOOST_TEST(!budget.rests_until(now));
  // And the crowd is heard again a little later, seldom.
  now += (300us + DoorBudget::beside) * 2 * DoorBudget::share;
  BOOST_TEST(budget.hears("crowd", now));
}

BOOST_AUTO_TEST_CASE(members_cost_nothing_however_many_they_are) {
  DoorBudget budget{1};
  for (int i = 0; i < 100'000; ++i) {
    BOOST_REQUIRE(budget.hears("host", begin_of_day));
    budget.spend("host", 300us, begin_of_day);
    budget.refund("host", 300us + DoorBudget::beside, begin_of_day);
  }
  BOOST_TEST(!budget.rests_until(begin_of_day));
}

BOOST_AUTO_TEST_CASE(members_vouch_for_who_comes_late_from_their_network) {
  DoorBudget budget{1};
  for (int i = 0; i < 100'000; ++i) {
    BOOST_REQUIRE(budget.hears("host", begin_of_day));
    budget.spend("host", 300us, begin_of_day);
    if (i % 9 == 0)
      budget.refund("host", 300us + DoorBudget::beside, begin_of_day);
  }
}

BOOST_AUTO_TEST_CASE(a_door_that_rests_is_opened_when_there_is_some_again) {
  DoorBudget budget{1};
  budget.turn_away(DoorBudget::burst + 1ms - DoorBudget::beside, begin_of_day);
  const auto until = budget.rests_until(begin_of_day);
  BOOST_REQUIRE(until.has_value());
  BOOST_TEST(
    (*until - begin_of_day == (1ms + DoorBudget::least) * DoorBudget::share));
  BOOST_TEST(budget.rests_until(*until - 300ms).has_value());
  BOOST_TEST(!budget.rests_until(*until).has_value());
}

BOOST_AUTO_TEST_CASE(more_processors_can_afford_more) {
  DoorBudget budget{50};
  const auto most = DoorBudget::burst + Cost{60s} * 50 / DoorBudget::share
                    + 1ms;
  const auto spent = spent_in(budget, 60s, 1000);
  BOOST_TEST((spent <= most));
  BOOST_TEST((spent >= most / 3));
}

BOOST_AUTO_TEST_CASE(a_crowd_is_forgotten) {
  DoorBudget budget{1};
  BOOST_TEST(!budget.is_crowded(begin_of_day));
  budget.turn_away(DoorBudget::burst, begin_of_day);
  BOOST_TEST(budget.is_crowded(begin_of_day));
  BOOST_TEST(!budget.is_crowded(begin_of_day + 60s));
}

BOOST_AUTO_TEST_SUITE_END()
