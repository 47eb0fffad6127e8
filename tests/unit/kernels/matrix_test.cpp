#include "kernels/cpu/elementwise_loops.hpp"
#include "kernels/cpu/isa.hpp"
#include "kernels/cpu/matrix.hpp"
#include "tests/unit/kernels/tolerance.hpp"

#include <boost/test/unit_test.hpp>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

using namespace troupe;
using namespace troupe::kernels;
using namespace troupe::test;

namespace matrix_test {
namespace {

constexpr size_t shapes[][3] = {{1, 1, 1},    {1, 17, 33},  {5, 3, 2},
                                {16, 48, 64}, {37, 50, 91}, {64, 131, 300}};

struct Case {
  size_t m, n, k;
  Side side_a, side_b;
  bool accumulate;
};

template <class F>
void for_all_cases(F f) {
  for (const auto& [m, n, k] : shapes)
    for (auto a : {Side::as_is, Side::transposed})
      for (auto b : {Side::as_is, Side::transposed})
        for (bool accumulate : {false, true})
          f(Case{m, n, k, a, b, accumulate});
}

std::vector<float> draw(size_t count, uint32_t seed) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<float> values(-1, 1);
  std::vector<float> result(count);
  for (auto& value : result)
    value = values(random);
  return result;
}

/// The product in float64, begun at 0.5 where it is added to.
std::vector<double> reference(const Case& at, const std::vector<float>& a,
                              const std::vector<float>& b) {
  std::vector<double> c(at.m * at.n, at.accumulate ? 0.5 : 0.0);
  for (size_t i = 0; i < at.m; ++i)
    for (size_t j = 0; j < at.n; ++j)
      for (size_t p = 0; p < at.k; ++p)
        c[i * at.n + j] +=
          double{a[at.side_a == Side::as_is ? i * at.k + p : p * at.m + i]}
          * double{b[at.side_b == Side::as_is ? p * at.n + j : j * at.k + p]};
  return c;
}

void check_product(Multiplier& multiplier, const Case& at,
                   const std::vector<float>& a, const std::vector<float>& b,
                   const std::vector<double>& want) {
  std::vector<float> c(at.m * at.n,
                       at.accumulate ? 0.5f
                                     : std::numeric_limits<float>::quiet_NaN());
  auto again = c;
  multiplier.multiply(at.side_a, at.side_b, at.m, at.n, at.k, a.data(),
                      b.data(), c.data(), at.accumulate);
  multiplier.multiply(at.side_a, at.side_b, at.m, at.n, at.k, a.data(),
                      b.data(), again.data(), at.accumulate);
  check_within(float32_sum, c, want, want.size());
  BOOST_TEST(std::memcmp(c.data(), again.data(), c.size() * 4) == 0);
}

float nearest_bfloat16(float value) {
  auto bits = std::bit_cast<uint32_t>(value);
  // Of the two neighbours the nearer, of equals the even one.
  const auto below = std::bit_cast<float>(bits & 0xffff0000u);
  const auto above = std::bit_cast<float>((bits & 0xffff0000u) + 0x10000u);
  const auto down = std::abs(double{value} - double{below});
  const auto up = std::abs(double{above} - double{value});
  if (down != up)
    return down < up ? below : above;
  return (bits >> 16 & 1) == 0 ? below : above;
}

/// As devices do: of themselves oneDNN's products in bfloat16 use AMX, which
/// ends the program on some machines that have it.
struct Pinned {
  Pinned() { pin_unless_selected(); }
};

} // namespace
} // namespace matrix_test

BOOST_FIXTURE_TEST_SUITE(matrix_test, Pinned)

BOOST_AUTO_TEST_CASE(products_follow_their_references) {
  Multiplier multiplier(Precision::float32);
  for_all_cases([&](const Case& at) {
    const auto a = draw(at.m * at.k, 1);
    const auto b = draw(at.k * at.n, 2);
    check_product(multiplier, at, a, b, reference(at, a, b));
  });
}

BOOST_AUTO_TEST_CASE(products_in_bfloat16_are_those_of_rounded_operands) {
  if (!has_bfloat16()) {
    BOOST_TEST_MESSAGE("bfloat16 is not supported here");
    return;
  }
  Multiplier multiplier(Precision::bfloat16);
  for_all_cases([&](const Case& at) {
    const auto a = draw(at.m * at.k, 1);
    const auto b = draw(at.k * at.n, 2);
    auto rounded_a = a;
    auto rounded_b = b;
    for (auto* values : {&rounded_a, &rounded_b})
      for (auto& value : *values)
        value = nearest_bfloat16(value);
    check_product(multiplier, at, a, b, reference(at, rounded_a, rounded_b));
  });
}

BOOST_AUTO_TEST_CASE(rounding_to_bfloat16_is_to_nearest_even) {
  auto values = draw(1000, 3);
  for (uint32_t bits : {0x3f800000u, 0x3f808000u, 0x3f818000u, 0x3f807fffu,
                        0x3f808001u, 0x80000000u, 0x00018000u, 0xff7f0000u})
    values.push_back(std::bit_cast<float>(bits));
  for (auto isa : {Isa::sse4, Isa::avx2, Isa::avx512}) {
    if (!has_isa(isa))
      continue;
    for (size_t offset = 0; offset < 20; ++offset) {
      std::vector<uint16_t> out(values.size());
      elementwise_loops(isa).to_bfloat16(values.data() + offset, out.data(),
                                         values.size() - offset);
      for (size_t i = offset; i < values.size(); ++i)
        BOOST_REQUIRE_EQUAL(std::bit_cast<float>(uint32_t{out[i - offset]}
                                                 << 16),
                            nearest_bfloat16(values[i]));
    }
    const float special[] = {std::numeric_limits<float>::infinity(),
                             std::bit_cast<float>(0x7f800001u),
                             std::bit_cast<float>(0xffffffffu)};
    uint16_t out[3];
    elementwise_loops(isa).to_bfloat16(special, out, 3);
    BOOST_TEST(out[0] == 0x7f80);
    BOOST_TEST((out[1] & 0x7fff) > 0x7f80);
    BOOST_TEST((out[2] & 0x7fff) > 0x7f80);
  }
}

BOOST_AUTO_TEST_SUITE_END()
