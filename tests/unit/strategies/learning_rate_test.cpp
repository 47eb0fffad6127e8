#include "strategies/learning_rate.hpp"

#include <boost/test/unit_test.hpp>

#include <cmath>
#include <numbers>

using namespace troupe;

BOOST_AUTO_TEST_SUITE(learning_rate_schedule)

namespace {

LrOptions options(LrSchedule schedule, uint64_t warmup_steps = 0) {
  LrOptions out;
  out.shape.schedule = schedule;
  out.base = 0.5;
  out.shape.min = 0.125;
  out.shape.warmup_steps = warmup_steps;
  out.total_steps = 100;
  return out;
}

} // namespace

BOOST_AUTO_TEST_CASE(a_constant_rate_stays) {
  auto it = options(LrSchedule::constant);
  for (uint64_t step : {0, 1, 50, 99, 1000})
    BOOST_TEST(learning_rate(it, step) == 0.5);
}

BOOST_AUTO_TEST_CASE(every_schedule_warms_up_linearly_to_its_base) {
  for (auto schedule : {LrSchedule::constant, LrSchedule::step,
                        LrSchedule::cosine, LrSchedule::inverse_sqrt}) {
    auto it = options(schedule, 10);
    BOOST_TEST(learning_rate(it, 0) == 0.05);
    BOOST_TEST(learning_rate(it, 4) == 0.25);
    BOOST_TEST(learning_rate(it, 9) == 0.5);
    BOOST_TEST(learning_rate(it, 10) <= 0.5);
    BOOST_TEST(learning_rate(it, 10) > 0.47);
  }
}

BOOST_AUTO_TEST_CASE(steps_fall_at_half_and_three_quarters) {
  auto it = options(LrSchedule::step);
  BOOST_TEST(learning_rate(it, 49) == 0.5);
  BOOST_TEST(learning_rate(it, 50) == 0.05);
  BOOST_TEST(learning_rate(it, 74) == 0.05);
  BOOST_TEST(learning_rate(it, 75) == 0.5 * 0.1 * 0.1);
  BOOST_TEST(learning_rate(it, 99) == 0.5 * 0.1 * 0.1);
}

BOOST_AUTO_TEST_CASE(cosine_falls_from_base_to_min) {
  auto it = options(LrSchedule::cosine, 20);
  BOOST_TEST(learning_rate(it, 20) == 0.5);
  BOOST_TEST(learning_rate(it, 60) == 0.3125); // half way
  BOOST_TEST(learning_rate(it, 100) == 0.125);
  BOOST_TEST(learning_rate(it, 5000) == 0.125);
  for (uint64_t step = 20; step < 100; ++step)
    BOOST_TEST(learning_rate(it, step + 1) < learning_rate(it, step));
}

BOOST_AUTO_TEST_CASE(cosine_agrees_with_the_c_library) {
  auto it = options(LrSchedule::cosine);
  it.base = 1;
  it.shape.min = 0;
  it.total_steps = 9973;
  for (uint64_t step = 0; step <= it.total_steps; ++step) {
    auto t = static_cast<double>(step) / 9973.0;
    auto expected = 0.5 * (1 + std::cos(std::numbers::pi * t));
    BOOST_TEST(std::abs(learning_rate(it, step) - expected) < 3e-16);
  }
}

BOOST_AUTO_TEST_CASE(cosine_after_a_warm_up_of_the_whole_run_is_min) {
  auto it = options(LrSchedule::cosine, 100);
  BOOST_TEST(learning_rate(it, 99) == 0.5);
  BOOST_TEST(learning_rate(it, 100) == 0.125);
}

BOOST_AUTO_TEST_CASE(inverse_sqrt_falls_from_the_end_of_the_warm_up) {
  auto it = options(LrSchedule::inverse_sqrt, 16);
  BOOST_TEST(learning_rate(it, 15) == 0.5);
  BOOST_TEST(learning_rate(it, 63) == 0.25);
  BOOST_TEST(learning_rate(it, 255) == 0.125);
  auto cold = options(LrSchedule::inverse_sqrt);
  BOOST_TEST(learning_rate(cold, 0) == 0.5);
  BOOST_TEST(learning_rate(cold, 3) == 0.25);
}

BOOST_AUTO_TEST_SUITE_END()
