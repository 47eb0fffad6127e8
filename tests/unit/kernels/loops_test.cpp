#include "kernels/base/error.hpp"
#include "kernels/cpu/isa.hpp"
#include "kernels/cpu/loop_table.hpp"
#include "kernels/cpu/vector_loops.hpp"
#include "kernels/engine/replica.hpp"
#include "kernels/numbers/natural_log.hpp"
#include "tests/unit/kernels/tolerance.hpp"

#include <boost/test/unit_test.hpp>

#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

using namespace troupe;
using namespace troupe::kernels;
using namespace troupe::test;

BOOST_AUTO_TEST_SUITE(loops_test)

namespace {

constexpr auto infinity = std::numeric_limits<float>::infinity();
constexpr auto not_a_number = std::numeric_limits<float>::quiet_NaN();

/// The tables this machine can run, the least first.
std::vector<const LoopTable*> tables() {
  std::vector<const LoopTable*> result;
  for (auto isa : every_isa)
    if (has_isa(isa))
      result.push_back(&loops(isa));
    else
      BOOST_TEST_MESSAGE(name_of(isa) << " is not supported here");
  return result;
}

std::vector<float> random_values(size_t count, uint32_t seed, float low = -2,
                                 float high = 2) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<float> draw(low, high);
  std::vector<float> values(count);
  for (auto& value : values)
    value = draw(random);
  return values;
}

bool same_bits(const float* a, const float* b, size_t count) {
  return std::memcmp(a, b, count * sizeof(float)) == 0;
}

const size_t odd_sizes[] = {1, 2, 3, 7, 15, 16, 17, 31, 63, 127, 1009};

} // namespace

BOOST_AUTO_TEST_CASE(add_gives_the_rounded_sum_at_any_offset_and_length) {
  auto a = random_values(2048, 1);
  auto b = random_values(2048, 2);
  for (const auto* table : tables())
    for (auto count : odd_sizes)
      for (size_t offset = 0; offset < 16; ++offset) {
        std::vector<float> out(count + 48, not_a_number);
        auto* to = out.data() + 16 + offset;
        table->add(a.data() + offset, b.data() + 2 * offset, to, count);
        for (size_t i = 0; i < count; ++i)
          BOOST_REQUIRE_EQUAL(to[i], a[offset + i] + b[2 * offset + i]);
        BOOST_REQUIRE(std::isnan(to[-1]) && std::isnan(to[count]));
      }
}

BOOST_AUTO_TEST_CASE(add_may_write_over_an_operand) {
  const auto a = random_values(77, 1);
  const auto b = random_values(77, 2);
  std::vector<float> sum(77);
  add(a.data(), b.data(), sum.data(), 77);
  auto left = a;
  auto right = b;
  add(left.data(), b.data(), left.data(), 77);
  add(a.data(), right.data(), right.data(), 77);
  BOOST_TEST(same_bits(left.data(), sum.data(), 77));
  BOOST_TEST(same_bits(right.data(), sum.data(), 77));
}

BOOST_AUTO_TEST_CASE(one_value_that_is_not_finite_is_found_wherever_it_is) {
  for (const auto* table : tables())
    for (auto count : odd_sizes) {
      auto values = random_values(count, 3, -1.7e38f, 1.7e38f);
      BOOST_REQUIRE(table->all_finite(values.data(), count));
      for (size_t i = 0; i < count; i += 1 + count / 37)
        for (auto bad : {infinity, -infinity, not_a_number}) {
          auto kept = std::exchange(values[i], bad);
          BOOST_REQUIRE(!table->all_finite(values.data(), count));
          values[i] = kept;
        }
    }
  BOOST_TEST(all_finite(nullptr, 0));
}

BOOST_AUTO_TEST_CASE(exp_is_near_the_exact_one) {
  std::vector<float> x;
  for (float value = 0; value > -87; value -= 0.00371f)
    x.push_back(value);
  for (const auto* table : tables()) {
    std::vector<float> y(x.size(), not_a_number);
    table->exp_shifted(x.data(), 0, y.data(), x.size());
    std::vector<double> exact(x.size());
    double worst = 0;
    for (size_t i = 0; i < x.size(); ++i) {
      exact[i] = std::exp(double{x[i]});
      worst = std::max(worst, std::abs(y[i] / exact[i] - 1));
    }
    BOOST_TEST_MESSAGE("exp is off by at most " << worst);
    check_within(float32_exp, y, exact, x.size());
    BOOST_TEST(y[0] == 1.0f);
  }
}

BOOST_AUTO_TEST_CASE(exp_of_far_arguments_is_tiny_and_nan_stays) {
  const float x[] = {-87.3f, -1000.0f, -infinity, not_a_number};
  for (const auto* table : tables()) {
    float y[4];
    table->exp_shifted(x, 0, y, 4);
    for (size_t i = 0; i < 3; ++i)
      BOOST_TEST((y[i] > 0 && y[i] < 2e-38f));
    BOOST_TEST(std::isnan(y[3]));
  }
}

BOOST_AUTO_TEST_CASE(natural_log_is_near_the_exact_one) {
  for (double x = 0.01; x < 1e12; x *= 1.0137)
    BOOST_REQUIRE_SMALL(natural_log(x) - std::log(x),
                        4e-16 * std::max(1.0, std::abs(std::log(x))));
  BOOST_TEST(natural_log(1.0) == 0.0);
  BOOST_TEST(std::isnan(natural_log(std::nan(""))));
}

BOOST_AUTO_TEST_CASE(bias_and_relu_are_what_the_plain_loop_says) {
  for (const auto* table : tables())
    for (size_t columns : {1, 5, 16, 61, 130})
      for (size_t rows : {1, 3, 17})
        for (bool relu : {false, true}) {
          const auto stride = columns + 3;
          auto y = random_values(rows * stride, 5);
          auto bias = random_values(columns, 6);
          auto want = y;
          for (size_t r = 0; r < rows; ++r)
            for (size_t c = 0; c < columns; ++c) {
              auto z = y[r * stride + c] + bias[c];
              want[r * stride + c] = relu && z < 0 ? 0.0f : z;
            }
          table->bias_forward({y.data(), stride, rows, columns}, bias.data(),
                              relu);
          BOOST_REQUIRE(same_bits(y.data(), want.data(), y.size()));
        }
}

BOOST_AUTO_TEST_CASE(a_bias_gradient_sums_the_open_gates_in_row_order) {
  for (const auto* table : tables())
    for (size_t columns : {1, 5, 16, 61, 64, 130, 300, 517})
      for (size_t rows : {1, 3, 33})
        for (bool gated : {false, true}) {
          const auto stride = columns + 1;
          auto d = random_values(rows * stride, 7);
          auto y = random_values(rows * stride, 8);
          auto want = d;
          std::vector<float> want_sum(columns, 0.0f);
          for (size_t r = 0; r < rows; ++r)
            for (size_t c = 0; c < columns; ++c) {
              auto& x = want[r * stride + c];
              if (gated && y[r * stride + c] <= 0)
                x = 0;
              want_sum[c] += x;
            }
          std::vector<float> sum(columns + 1, not_a_number);
          table->bias_backward({d.data(), stride, rows, columns},
                               gated ? y.data() : nullptr, sum.data());
          BOOST_REQUIRE(same_bits(d.data(), want.data(), d.size()));
          BOOST_REQUIRE(same_bits(sum.data(), want_sum.data(), columns));
          BOOST_REQUIRE(std::isnan(sum[columns]));
        }
}

BOOST_AUTO_TEST_CASE(softmax_is_near_the_exact_one_with_equal_bits_per_isa) {
  for (size_t columns : {1, 2, 10, 16, 17, 101}) {
    const size_t rows = 7;
    auto z = random_values(rows * columns, 9, -30, 30);
    std::vector<double> exact(z.size());
    for (size_t r = 0; r < rows; ++r) {
      double sum = 0;
      for (size_t c = 0; c < columns; ++c)
        sum += std::exp(double{z[r * columns + c]});
      for (size_t c = 0; c < columns; ++c)
        exact[r * columns + c] = std::exp(double{z[r * columns + c]}) / sum;
    }
    std::vector<float> first;
    for (const auto* table : tables()) {
      std::vector<float> p(z.size(), not_a_number);
      SoftmaxRow results[rows];
      table->softmax({z.data(), columns, rows, columns}, p.data(), results);
      check_within(float32_element, p, exact, p.size());
      for (size_t r = 0; r < rows; ++r)
        BOOST_REQUIRE_EQUAL(z[r * columns + results[r].best],
                            results[r].largest);
      if (first.empty())
        first = p;
      BOOST_TEST(same_bits(p.data(), first.data(), p.size()));
    }
  }
}

BOOST_AUTO_TEST_CASE(loops_do_not_depend_on_where_the_values_lie) {
  const size_t count = 131;
  auto x = random_values(count, 10, -20, 0);
  for (const auto* table : tables()) {
    std::vector<float> first;
    for (size_t offset = 0; offset < 16; ++offset) {
      std::vector<float> in(count + 16);
      std::vector<float> out(count + 16, not_a_number);
      std::copy(x.begin(), x.end(), in.begin() + offset);
      SoftmaxRow result;
      table->softmax({in.data() + offset, count, 1, count},
                     out.data() + 15 - offset, &result);
      if (offset == 0)
        first.assign(out.begin() + 15, out.begin() + 15 + count);
      BOOST_TEST(same_bits(out.data() + 15 - offset, first.data(), count));
    }
  }
}

BOOST_AUTO_TEST_CASE(an_unknown_instruction_set_is_a_usage_error) {
  BOOST_CHECK_THROW(select_isa("avx1024"), UsageError);
}

BOOST_AUTO_TEST_CASE(the_set_in_use_may_be_selected_again) {
  auto first = select_isa("auto");
  BOOST_TEST(first == name_of(selected_isa()));
  BOOST_TEST(select_isa("auto") == first);
  BOOST_TEST(select_isa(first) == first);
}

BOOST_AUTO_TEST_CASE(another_set_than_the_one_in_use_is_refused) {
  if (select_isa("auto") != "sse4")
    BOOST_CHECK_THROW(select_isa("sse4"), InputError);
  else
    BOOST_TEST_MESSAGE("only sse4 is supported here");
  BOOST_TEST(select_isa("auto") == name_of(selected_isa()));
}

BOOST_AUTO_TEST_SUITE_END()
