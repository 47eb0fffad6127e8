#include "actors/coordinator/loss_watch.hpp"

#include <boost/test/unit_test.hpp>

#include <limits>

// Symptom: a run whose weights had become useless ended with `eval loss -` and
// no other word.

using namespace troupe;

BOOST_AUTO_TEST_SUITE(loss_watch)

namespace {

Evaluation evaluation(uint64_t version, double loss, double accuracy = 0.1) {
  return {1, version, 100, {{"loss", loss}, {"accuracy", accuracy}}};
}

} // namespace

BOOST_AUTO_TEST_CASE(a_loss_that_is_not_finite_is_told_once) {
  constexpr auto infinite = std::numeric_limits<double>::infinity();
  constexpr auto nan = std::numeric_limits<double>::quiet_NaN();
  for (const auto bad : {infinite, nan}) {
    LossWatch watch;
    BOOST_TEST(watch.evaluated(evaluation(40, 1e30)) == "");
    const auto line = watch.evaluated(evaluation(80, bad));
    BOOST_TEST(line.find("not finite after step 80") != std::string::npos);
    BOOST_TEST(line.find("--lr") != std::string::npos);
    BOOST_TEST(watch.evaluated(evaluation(120, bad)) == "");
  }
}

// An area under a curve may be no number where one class is missing.
BOOST_AUTO_TEST_CASE(other_measures_are_not_looked_at) {
  LossWatch watch;
  BOOST_TEST(watch.evaluated(
               evaluation(1, 0.5, std::numeric_limits<double>::quiet_NaN()))
             == "");
}

BOOST_AUTO_TEST_SUITE_END()
