#include "kernels/numbers/auc.hpp"
#include "kernels/numbers/random.hpp"

#include <boost/test/unit_test.hpp>

#include <cmath>
#include <limits>
#include <vector>

using namespace troupe;

BOOST_AUTO_TEST_SUITE(auc)

namespace {

/// Every pair of a 1 and a 0, one by one.
double by_pairs(const std::vector<float>& scores,
                const std::vector<int32_t>& labels) {
  double won = 0;
  double pairs = 0;
  for (size_t i = 0; i < scores.size(); ++i)
    for (size_t j = 0; j < scores.size(); ++j)
      if (labels[i] == 1 && labels[j] == 0) {
        pairs += 1;
        won += scores[i] > scores[j] ? 1 : scores[i] == scores[j] ? 0.5 : 0;
      }
  return won / pairs;
}

} // namespace

BOOST_AUTO_TEST_CASE(order_alone_decides) {
  const std::vector<int32_t> labels{0, 0, 1, 1};
  using Scores = std::vector<float>;
  BOOST_TEST(area_under_curve(Scores{1, 2, 3, 4}, labels) == 1.0);
  BOOST_TEST(area_under_curve(Scores{-9, 0, 0.1f, 99}, labels) == 1.0);
  BOOST_TEST(area_under_curve(Scores{4, 3, 2, 1}, labels) == 0.0);
  BOOST_TEST(area_under_curve(Scores{1, 3, 2, 4}, labels) == 0.75);
}

BOOST_AUTO_TEST_CASE(equal_scores_count_half) {
  const std::vector<int32_t> labels{0, 1, 0, 1};
  using Scores = std::vector<float>;
  BOOST_TEST(area_under_curve(Scores{5, 5, 5, 5}, labels) == 0.5);
  BOOST_TEST(area_under_curve(Scores{1, 1, 0, 2}, labels) == 0.875);
  BOOST_TEST(area_under_curve(Scores{-0.0f, 0.0f, 0, 0}, labels) == 0.5);
}

BOOST_AUTO_TEST_CASE(it_is_the_share_of_pairs_in_order) {
  for (uint64_t key = 0; key < 20; ++key) {
    std::vector<float> scores;
    std::vector<int32_t> labels;
    for (uint64_t i = 0; i < 101; ++i) {
      const auto bits = kernels::random_bits(key, i);
      scores.push_back(static_cast<float>(bits % (key + 2)));
      labels.push_back(static_cast<int32_t>(bits >> 40 & 1));
    }
    BOOST_TEST(area_under_curve(scores, labels) == by_pairs(scores, labels),
               boost::test_tools::tolerance(1e-12));
  }
}

BOOST_AUTO_TEST_CASE(it_is_unknown_without_both_labels_or_a_score) {
  using Scores = std::vector<float>;
  using Labels = std::vector<int32_t>;
  const auto nan = std::numeric_limits<float>::quiet_NaN();
  BOOST_TEST(std::isnan(area_under_curve(Scores{}, Labels{})));
  BOOST_TEST(std::isnan(area_under_curve(Scores{1, 2}, Labels{1, 1})));
  BOOST_TEST(std::isnan(area_under_curve(Scores{1, 2}, Labels{0, 0})));
  BOOST_TEST(std::isnan(area_under_curve(Scores{1, nan}, Labels{0, 1})));
}

BOOST_AUTO_TEST_SUITE_END()
