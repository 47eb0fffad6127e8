#include "actors/coordinator/run_clock.hpp"

#include <boost/test/unit_test.hpp>

// Symptom: after Ctrl-Z and `fg` roles were left out as silent, or waited for
// no longer. Cause: deadlines counted what nobody ran for.

using namespace troupe;
using namespace std::chrono_literals;

BOOST_AUTO_TEST_SUITE(run_clock)

BOOST_AUTO_TEST_CASE(what_nobody_ran_for_is_told_once) {
  RunClock clock;
  const auto begin = RunClock::Clock::time_point{} + 1h;
  BOOST_CHECK(clock.take_pause(begin) == 0s); // nobody had looked before
  BOOST_CHECK(clock.take_pause(begin + 100ms) == 0s);
  BOOST_CHECK(clock.take_pause(begin + 900ms) == 0s); // late, but it ran
  BOOST_CHECK(clock.take_pause(begin + 61'000ms) == 60'100ms);
  BOOST_CHECK(clock.take_pause(begin + 61'100ms) == 0s);
}

BOOST_AUTO_TEST_CASE(milliseconds_leave_it_out_and_never_go_back) {
  RunClock clock;
  const auto now = RunClock::Clock::now();
  clock.take_pause(now - 10min);
  const auto before = clock.ms();
  const auto after = clock.ms();
  BOOST_TEST(after >= before);
  BOOST_CHECK(clock.take_pause(RunClock::Clock::now()) >= 10min);
  BOOST_TEST(clock.ms() >= after);
  const auto passed = std::chrono::duration_cast<std::chrono::milliseconds>(
                        now.time_since_epoch())
                        .count();
  BOOST_TEST(before < static_cast<uint64_t>(passed) - 500'000);
}

BOOST_AUTO_TEST_SUITE_END()
