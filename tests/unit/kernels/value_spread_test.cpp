#include "kernels/cpu/spread_loops.hpp"
#include "kernels/cpu/value_spread.hpp"

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

using namespace troupe;

BOOST_AUTO_TEST_SUITE(value_spread)

BOOST_AUTO_TEST_CASE(each_value_is_counted_in_the_bucket_that_it_lies_in) {
  std::mt19937 draw{3};
  std::normal_distribution<float> normal;
  std::vector<float> values{0,
                            -0.0f,
                            1,
                            -1,
                            std::numeric_limits<float>::max(),
                            std::numeric_limits<float>::lowest(),
                            std::numeric_limits<float>::denorm_min(),
                            -std::numeric_limits<float>::denorm_min()};
  for (int i = 0; i < 2'000; ++i)
    values.push_back(normal(draw) * std::ldexp(1.0f, i % 30 - 15));
  const auto spread = spread_of(values.data(), values.size());
  BOOST_TEST(spread.count == values.size());
  BOOST_TEST(spread.min == *std::ranges::min_element(values));
  BOOST_TEST(spread.max == *std::ranges::max_element(values));
  BOOST_REQUIRE(spread.buckets.size() == spread.counts.size());
  BOOST_TEST(std::ranges::is_sorted(spread.buckets));
  uint64_t sum = 0;
  for (size_t i = 0; i < spread.buckets.size(); ++i) {
    const auto low = lower_end(spread.buckets[i]);
    const auto high = upper_end(spread.buckets[i]);
    const auto inside = [&](float x) {
      return low <= x && (x < high || high == spread.max);
    };
    BOOST_TEST(low < high);
    BOOST_TEST(spread.counts[i]
               == static_cast<uint64_t>(std::ranges::count_if(values, inside)));
    if (std::abs(low) > 1e-30 && std::abs(high) < 1e30)
      BOOST_TEST(std::abs((high - low) / low) < 0.126);
    sum += spread.counts[i];
  }
  BOOST_TEST(sum == values.size());
}

BOOST_AUTO_TEST_CASE(parts_that_are_merged_are_the_whole) {
  std::vector<float> values;
  for (int i = -300; i < 700; ++i)
    values.push_back(0.37f * static_cast<float>(i));
  const auto whole = spread_of(values.data(), values.size(), 0.5f);
  BOOST_TEST(whole.min == double{0.37f * -300.0f * 0.5f});
  for (const size_t cut : {size_t{0}, size_t{1}, size_t{333}, values.size()}) {
    auto sum = spread_of(values.data(), cut, 0.5f);
    merge(sum, spread_of(values.data() + cut, values.size() - cut, 0.5f));
    BOOST_TEST(sum.count == whole.count);
    BOOST_TEST(sum.min == whole.min);
    BOOST_TEST(sum.max == whole.max);
    BOOST_TEST(sum.sum == whole.sum, boost::test_tools::tolerance(1e-12));
    BOOST_TEST(sum.sum_of_squares == whole.sum_of_squares,
               boost::test_tools::tolerance(1e-12));
    BOOST_TEST((sum.buckets == whole.buckets && sum.counts == whole.counts));
  }
}

BOOST_AUTO_TEST_CASE(every_instruction_set_gives_the_same_bits) {
  using kernels::SpreadSums;
  std::mt19937 draw{5};
  std::normal_distribution<float> normal;
  std::vector<float> values(6 * SpreadSums::lanes);
  for (auto& value : values)
    value = normal(draw);
  values[3] = -0.0f;
  values[20] = std::numeric_limits<float>::quiet_NaN();
  values[40] = -std::numeric_limits<float>::infinity();
  const auto look = [&](kernels::Isa isa, std::vector<uint32_t>& buckets) {
    SpreadSums sums;
    buckets.resize(values.size());
    kernels::spread_loops(isa).look(values.data(), values.size(), 0.3f, sums,
                                    buckets.data());
    return sums;
  };
  std::vector<uint32_t> first, buckets;
  const auto sums = look(kernels::highest_isa(), first);
  BOOST_TEST(sums.finite == values.size() - 2);
  BOOST_TEST(first[20] == spread_buckets);
  BOOST_TEST(first[3] == spread_buckets / 2);
  for (const auto isa : kernels::every_isa)
    if (kernels::has_isa(isa)) {
      const auto again = look(isa, buckets);
      BOOST_TEST(again.finite == sums.finite);
      BOOST_TEST(again.least == sums.least);
      BOOST_TEST(again.most == sums.most);
      BOOST_TEST((again.sums == sums.sums && again.squares == sums.squares));
      BOOST_TEST((buckets == first));
    }
}

BOOST_AUTO_TEST_CASE(what_is_not_finite_is_left_out) {
  const float values[] = {std::numeric_limits<float>::quiet_NaN(), 2,
                          -std::numeric_limits<float>::infinity()};
  const auto spread = spread_of(values, 3);
  BOOST_TEST(spread.count == 1u);
  BOOST_TEST(spread.min == 2);
  BOOST_TEST(spread.sum == 2);
  BOOST_TEST(spread_of(values, 1).count == 0u);
  BOOST_TEST(spread_of(values, 0).buckets.empty());
}

BOOST_AUTO_TEST_SUITE_END()
