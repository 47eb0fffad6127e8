#include "kernels/cpu/elementwise_loops.hpp"
#include "kernels/cpu/isa.hpp"
#include "kernels/cpu/matrix.hpp"
#include "tests/unit/kernels/every_isa.hpp"
#include "tests/unit/kernels/matrix_reference.hpp"
#include "tests/unit/kernels/tolerance.hpp"

#include <boost/test/unit_test.hpp>

#include <algorithm>
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
  const auto wide = [](const std::vector<float>& x, size_t rows, size_t columns,
                       Side side) -> RowMajor<double> {
    if (side == Side::as_is)
      return matrix_at(x.data(), rows, columns).cast<double>();
    return matrix_at(x.data(), columns, rows).transpose().cast<double>();
  };
  std::vector<double> c(at.m * at.n, at.accumulate ? 0.5 : 0.0);
  matrix_at(c.data(), at.m, at.n) += wide(a, at.m, at.k, at.side_a)
                                     * wide(b, at.k, at.n, at.side_b);
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

// -- the chain of docs/numeric_classes.md -------------------------------------

static_assert(chain_length(1) == 1 && chain_length(256) == 256
              && chain_length(257) == 132 && chain_length(384) == 192
              && chain_length(784) == 196 && chain_length(1024) == 256);

/// Operands of which any part can be laid out, with the sums of their blocks.
class Chains {
public:
  Chains(size_t m, size_t n, size_t k, bool tiny)
    : n_(n), k_(k), a_(draw(m * k, 5)), b_(draw(k * n, 6)) {
    if (tiny)
      for (size_t i = 0; i < a_.size(); i += 3)
        a_[i] *= 1e-38f; // products that underflow, to either zero
  }

  /// An element of c in the class of FMA, or of a product and then a sum.
  float element(size_t i, size_t j, bool fused, bool add, float old) const {
    auto result = old;
    const auto length = chain_length(k_);
    for (size_t begin = 0; begin < k_; begin += length) {
      float sum = 0;
      for (auto p = begin; p < std::min(begin + length, k_); ++p) {
        const auto x = a_[i * k_ + p];
        const auto y = b_[p * n_ + j];
        sum = fused ? std::fma(x, y, sum) : x * y + sum;
      }
      sum += 0.0f;
      result = add || begin > 0 ? result + sum : sum;
    }
    return result;
  }

  std::vector<float> a(size_t m, Side side, size_t offset) const {
    std::vector<float> out(offset + m * k_);
    for (size_t i = 0; i < m; ++i)
      for (size_t p = 0; p < k_; ++p)
        out[offset + (side == Side::as_is ? i * k_ + p : p * m + i)] =
          a_[i * k_ + p];
    return out;
  }

  std::vector<float> b(size_t n, Side side, size_t offset) const {
    std::vector<float> out(offset + n * k_);
    for (size_t p = 0; p < k_; ++p)
      for (size_t j = 0; j < n; ++j)
        out[offset + (side == Side::as_is ? p * n + j : j * k_ + p)] =
          b_[p * n_ + j];
    return out;
  }

private:
  size_t n_;
  size_t k_;
  std::vector<float> a_;
  std::vector<float> b_;
};

constexpr float old_element = 0.3f;
constexpr float untouched = 12345.0f;

/// What multiply() gives of m rows and n columns, between margins that it is to
/// leave alone.
std::vector<float> product_of(const Chains& chains, size_t m, size_t n,
                              size_t k, Side side_a, Side side_b, bool add,
                              size_t offset) {
  const auto a = chains.a(m, side_a, offset);
  const auto b = chains.b(n, side_b, offset);
  constexpr size_t margin = 40;
  std::vector<float> c(2 * margin + offset + m * n, untouched);
  auto* const first = c.data() + margin + offset;
  std::fill_n(first, m * n,
              add ? old_element : std::numeric_limits<float>::quiet_NaN());
  multiply(side_a, side_b, m, n, k, a.data() + offset, b.data() + offset, first,
           add);
  bool alone = true;
  for (size_t i = 0; i < margin; ++i)
    alone = alone && c[i] == untouched && c[c.size() - 1 - i] == untouched;
  BOOST_TEST(alone);
  return {first, first + m * n};
}

template <class F>
void for_all_sides(F f) {
  for (auto a : {Side::as_is, Side::transposed})
    for (auto b : {Side::as_is, Side::transposed})
      for (bool add : {false, true})
        f(a, b, add);
}

bool same_bits(float x, float y) {
  return std::bit_cast<uint32_t>(x) == std::bit_cast<uint32_t>(y);
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

BOOST_AUTO_TEST_CASE(small_products_have_the_bits_of_the_chain) {
  constexpr size_t most = 40;
  constexpr auto longest = max_chain_length;
  for (size_t k : {size_t{1}, size_t{2}, size_t{7}, longest - 1, longest,
                   longest + 1, 3 * longest + 5}) {
    const Chains chains(most, most, k, k == 7);
    // [fused][add]
    std::vector<float> want[2][2];
    for (bool fused : {false, true})
      for (bool add : {false, true})
        for (size_t i = 0; i < most; ++i)
          for (size_t j = 0; j < most; ++j)
            want[fused][add].push_back(
              chains.element(i, j, fused, add, old_element));
    for_every_isa([&](Isa isa) {
      for (size_t m = 1; m <= most; ++m)
        for (size_t n = 1; n <= most; ++n)
          for_all_sides([&](Side a, Side b, bool add) {
            const auto c = product_of(chains, m, n, k, a, b, add, (m + n) % 4);
            const auto& element = want[fuses(isa)][add];
            size_t wrong = 0;
            for (size_t i = 0; i < m; ++i)
              for (size_t j = 0; j < n; ++j)
                wrong += !same_bits(c[i * n + j], element[i * most + j]);
            BOOST_REQUIRE_MESSAGE(wrong == 0,
                                  wrong << " of " << m << "x" << n << "x" << k);
          });
    });
  }
}

/// Each by another way: packed or not, swapped, by rows, more rows than are
/// packed at once.
BOOST_AUTO_TEST_CASE(large_products_have_the_bits_of_the_chain) {
  constexpr size_t extents[][3] = {
    {1, 300, 600},   {300, 1, 520},  {5, 515, 300},   {16, 200, 530},
    {33, 129, 1000}, {96, 260, 140}, {130, 150, 300}, {160, 130, 257},
    {400, 1050, 60}, {90, 500, 20},  {80, 200, 600},  {200, 333, 700},
    {4100, 20, 30}};
  for (const auto& [m, n, k] : extents) {
    const Chains chains(m, n, k, false);
    for_every_isa([&, m = m, n = n, k = k](Isa isa) {
      for_all_sides([&](Side a, Side b, bool add) {
        const auto c = product_of(chains, m, n, k, a, b, add, 3);
        size_t wrong = 0;
        for (size_t at = 0; at < c.size(); at += c.size() < 5000 ? 1 : 37)
          wrong += !same_bits(c[at], chains.element(at / n, at % n, fuses(isa),
                                                    add, old_element));
        BOOST_TEST(wrong == 0u,
                   "" << wrong << " of " << m << "x" << n << "x" << k);
      });
    });
  }
}

/// Blanchard, Higham and Mary, A class of fast and accurate summation
/// algorithms (2020): blocks of b of k products, joined one after the other,
/// are off by at most (b + k / b) u |a| |b|.
BOOST_AUTO_TEST_CASE(errors_stay_below_the_bound_of_blocked_sums) {
  constexpr size_t m = 8, n = 40, k = 5000;
  const auto a = draw(m * k, 7);
  const auto b = draw(k * n, 8);
  const double u = std::numeric_limits<float>::epsilon() / 2;
  const double bound =
    (chain_length(k) + std::ceil(double{k} / chain_length(k))) * u;
  for_every_isa([&](Isa isa) {
    std::vector<float> c(m * n);
    multiply(Side::as_is, Side::as_is, m, n, k, a.data(), b.data(), c.data());
    double squares = 0;
    for (size_t i = 0; i < m; ++i)
      for (size_t j = 0; j < n; ++j) {
        double exact = 0;
        double size = 0;
        for (size_t p = 0; p < k; ++p) {
          const auto x = double{a[i * k + p]} * double{b[p * n + j]};
          exact += x;
          size += std::abs(x);
        }
        const auto error = std::abs(exact - double{c[i * n + j]});
        BOOST_TEST(error <= bound * size);
        squares += error * error / (size * size);
      }
    BOOST_TEST_MESSAGE(name_of(isa) << ": " << std::sqrt(squares / (m * n)) / u
                                    << " u of the sum of sizes");
  });
}

BOOST_AUTO_TEST_CASE(a_product_along_nothing_is_zero_or_what_was_there) {
  std::vector<float> c(6, 2.0f);
  multiply(Side::as_is, Side::as_is, 2, 3, 0, nullptr, nullptr, c.data(), true);
  BOOST_TEST(c == std::vector<float>(6, 2.0f));
  multiply(Side::as_is, Side::as_is, 2, 3, 0, nullptr, nullptr, c.data());
  BOOST_TEST(c == std::vector<float>(6, 0.0f));
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
  for (auto isa : every_isa) {
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
