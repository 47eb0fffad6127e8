#include "actors/coordinator/left_out_desk.hpp"

#include <boost/test/unit_test.hpp>

using namespace troupe;

BOOST_AUTO_TEST_SUITE(left_out_desk)

// Symptom: a worker that waited for a host was told of each five seconds.
BOOST_AUTO_TEST_CASE(who_stays_away_is_told_of_more_and_more_seldom) {
  constexpr RoleId worker{RoleKind::worker, 2};
  LeftOutDesk desk;
  std::vector<uint64_t> told;
  for (uint64_t now_ms = 0; now_ms <= 100'000; now_ms += 5'000)
    if (desk.is_to_be_told(worker, "lost and not back", now_ms))
      told.push_back(now_ms);
  BOOST_TEST((told == std::vector<uint64_t>{0, 10'000, 30'000, 70'000}));
  BOOST_TEST(desk.is_to_be_told(worker, "silent for 3.0 s", 101'000));
  BOOST_TEST(
    desk.is_to_be_told({RoleKind::worker, 3}, "lost and not back", 101'000));
  desk.left_out(worker, "silent for 3.0 s");
  desk.back(worker, 102'000);
  BOOST_TEST(desk.is_to_be_told(worker, "silent for 3.0 s", 103'000));
}

BOOST_AUTO_TEST_SUITE_END()
