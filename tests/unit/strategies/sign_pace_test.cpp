// Symptom: a thousand members gave 4,000 signs of life a second, which kept
// their coordinator from hearing who wanted to join.

#include "strategies/sign_pace.hpp"

#include <boost/test/unit_test.hpp>

using namespace troupe;

BOOST_AUTO_TEST_SUITE(sign_pace)

BOOST_AUTO_TEST_CASE(a_small_job_has_the_usual_pace) {
  for (size_t members = 0; members <= 128; ++members)
    BOOST_TEST(sign_period_ms(members, 5'000) == 250u);
}

BOOST_AUTO_TEST_CASE(many_members_share_what_a_coordinator_takes) {
  for (size_t members = 129; members <= 4'096; ++members) {
    const auto period = sign_period_ms(members, 3'600'000);
    BOOST_TEST(members * 1'000 <= 512 * period);
    BOOST_TEST(members * 1'000 > 512 * (period - 1));
  }
}

BOOST_AUTO_TEST_CASE(four_signs_fit_into_what_counts_as_loss) {
  for (uint64_t loss_ms : {1'000, 1'500, 3'000, 5'000, 60'000})
    for (size_t members : {1, 128, 129, 1'000, 4'096})
      BOOST_TEST(4 * sign_period_ms(members, loss_ms) <= loss_ms);
  BOOST_TEST(sign_period_ms(1'000, 5'000) == 1'250u);
  BOOST_TEST(sign_period_ms(1'000, 8'000) == 1'954u);
}

BOOST_AUTO_TEST_CASE(nobody_gives_signs_faster_than_usual) {
  BOOST_TEST(sign_period_ms(1, 500) == 250u);
  BOOST_TEST(sign_period_ms(4'096, 0) == 250u);
}

BOOST_AUTO_TEST_SUITE_END()
