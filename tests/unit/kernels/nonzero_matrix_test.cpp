#include "kernels/cpu/nonzero_matrix.hpp"
#include "kernels/cpu/sparse_loops.hpp"
#include "tests/unit/kernels/every_isa.hpp"
#include "tests/unit/kernels/tolerance.hpp"

#include <boost/test/unit_test.hpp>

#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

using namespace troupe::kernels;
using namespace troupe::test;

BOOST_AUTO_TEST_SUITE(nonzero_matrix_test)

namespace {

constexpr auto not_a_number = std::numeric_limits<float>::quiet_NaN();

std::vector<float> draw(size_t count, double density, uint32_t seed) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<float> values(-1, 1);
  std::bernoulli_distribution keep(density);
  std::vector<float> result(count);
  for (auto& value : result)
    value = keep(random) ? values(random) : 0.0f;
  return result;
}

struct Extents {
  size_t rows, columns, n;
};
constexpr Extents extents[] = {{1, 1, 64},     {1, 300, 65},  {3, 7, 64},
                               {33, 97, 200},  {64, 193, 79}, {130, 95, 128},
                               {200, 784, 130}};

constexpr BreakEven left_out = {1, 1, 1, 1};
constexpr BreakEven multiplied = {-1, -1, -1, -1};

enum class Product { plain, transposed_a, transposed_b };

void multiply(NonzeroMatrix& matrix, Product product,
              const std::vector<float>& a, const std::vector<float>& b,
              size_t n, std::vector<float>& c, bool accumulate) {
  if (product == Product::transposed_a)
    matrix.multiply_transposed(a.data(), b.data(), n, c.data(), accumulate);
  else
    matrix.multiply(a.data(),
                    product == Product::plain ? Side::as_is : Side::transposed,
                    b.data(), n, c.data(), accumulate);
}

/// c [rows, n], of a [rows, columns]; of its transpose: c [columns, n].
void check_product(Product product, const Extents& at, double density,
                   bool accumulate, const BreakEven& rates) {
  const auto& [rows, columns, n] = at;
  const bool turned = product == Product::transposed_a;
  const auto height = turned ? columns : rows;
  const auto depth = turned ? rows : columns;
  const auto a = draw(rows * columns, density, 1);
  const auto b = draw(depth * n, 1, 2);
  NonzeroMatrix sparse{rates};
  if (!sparse.take(a.data(), rows, columns, n, 0.4)) {
    BOOST_TEST(rows * columns < 30u); // few elements may be many of them
    return;
  }
  std::vector<double> want(height * n, accumulate ? 0.5 : 0.0);
  for (size_t r = 0; r < height; ++r)
    for (size_t k = 0; k < depth; ++k)
      for (size_t c = 0; c < n; ++c)
        want[r * n + c] +=
          double{turned ? a[k * columns + r] : a[r * columns + k]}
          * double{product == Product::transposed_b ? b[c * depth + k]
                                                    : b[k * n + c]};
  std::vector<float> c(height * n, accumulate ? 0.5f : not_a_number);
  multiply(sparse, product, a, b, n, c, accumulate);
  check_within(float32_sum, c, want, want.size());
}

void check_products(Product product, const std::vector<double>& densities,
                    const std::vector<bool>& accumulate) {
  for_every_isa([&](Isa) {
    for (const auto& at : extents)
      for (double density : densities)
        for (bool added : accumulate)
          for (const auto& rates : {left_out, multiplied})
            check_product(product, at, density, added, rates);
  });
}

} // namespace

BOOST_AUTO_TEST_CASE(products_follow_their_references) {
  check_products(Product::plain, {0.0, 0.02, 0.2, 0.35}, {false});
}

BOOST_AUTO_TEST_CASE(products_with_a_transposed_side_follow_theirs) {
  check_products(Product::transposed_b, {0.02, 0.35}, {true});
}

BOOST_AUTO_TEST_CASE(transposed_products_follow_their_references) {
  check_products(Product::transposed_a, {0.2}, {false, true});
}

BOOST_AUTO_TEST_CASE(zeros_left_out_or_multiplied_give_the_same_bits) {
  for_every_isa([](Isa) {
    for (const auto& [rows, columns, n] :
         {Extents{64, 193, 79}, Extents{5, 1100, 130}, Extents{200, 784, 65},
          Extents{70, 600, 600}, Extents{1, 1, 64}, Extents{64, 784, 200},
          Extents{20, 300, 200}, Extents{300, 700, 640}})
      for (auto product :
           {Product::plain, Product::transposed_a, Product::transposed_b})
        for (bool added : {false, true}) {
          const auto a = draw(rows * columns, 0.5, 1);
          const bool turned = product == Product::transposed_a;
          auto b = draw((turned ? rows : columns) * n, 0.9, 2);
          for (size_t i = 0; i < b.size(); i += 7)
            b[i] *= 1e-38f; // products that underflow to either zero
          std::vector<float> c[2];
          for (int way = 0; way < 2; ++way) {
            c[way].assign((turned ? columns : rows) * n, 0.5f);
            NonzeroMatrix matrix{way == 0 ? left_out : multiplied};
            BOOST_REQUIRE(matrix.take(a.data(), rows, columns, n, 1));
            multiply(matrix, product, a, b, n, c[way], added);
          }
          BOOST_TEST(
            std::memcmp(c[0].data(), c[1].data(), c[0].size() * sizeof(float))
            == 0);
        }
  });
}

BOOST_AUTO_TEST_CASE(a_sum_that_underflows_leaves_no_negative_zero) {
  for_every_isa([](Isa) {
    const std::vector<float> a = {1e-30f, 0.0f};
    const std::vector<float> b(2 * 64, -1e-30f);
    for (const auto& rates : {left_out, multiplied}) {
      std::vector<float> c(64);
      NonzeroMatrix matrix{rates};
      BOOST_REQUIRE(matrix.take(a.data(), 1, 2, 64, 1));
      multiply(matrix, Product::plain, a, b, 64, c, false);
      BOOST_TEST(c[0] == 0.0f);
      BOOST_TEST(!std::signbit(c[0]));
    }
  });
}

BOOST_AUTO_TEST_CASE(the_machine_says_where_zeros_are_better_left_out) {
  for_every_isa([](Isa) {
    const auto& rates = BreakEven::measured();
    for (double rate :
         {rates.plain, rates.transposed_a, rates.transposed_b, rates.leaves})
      BOOST_TEST((rate > 0.0 && rate < 5.0), rate);
    BOOST_TEST(&BreakEven::measured() == &rates);
  });
}

BOOST_AUTO_TEST_CASE(bits_do_not_depend_on_earlier_matrices) {
  const auto a = draw(40 * 150, 0.3, 1);
  const auto b = draw(150 * 100, 1, 2);
  const auto other = draw(90 * 200, 0.3, 3);
  std::vector<float> first(40 * 100);
  std::vector<float> second(40 * 100);
  NonzeroMatrix fresh;
  BOOST_REQUIRE(fresh.take(a.data(), 40, 150, 100, 0.4));
  fresh.multiply(a.data(), Side::as_is, b.data(), 100, first.data(), false);
  NonzeroMatrix used;
  BOOST_REQUIRE(used.take(other.data(), 90, 200, 100, 0.4));
  std::vector<float> elsewhere(200 * 100);
  used.multiply_transposed(other.data(), draw(90 * 100, 1, 4).data(), 100,
                           elsewhere.data(), false);
  BOOST_REQUIRE(used.take(a.data(), 40, 150, 100, 0.4));
  used.multiply(a.data(), Side::as_is, b.data(), 100, second.data(), false);
  BOOST_TEST(std::memcmp(first.data(), second.data(), first.size() * 4) == 0);
}

BOOST_AUTO_TEST_CASE(dense_matrices_and_narrow_products_are_refused) {
  for_every_isa([](Isa) {
    NonzeroMatrix sparse;
    const auto few = draw(1000 * 37, 0.38, 1);
    BOOST_TEST(sparse.take(few.data(), 1000, 37, 64, 0.4));
    BOOST_TEST(!sparse.take(few.data(), 1000, 37, 63, 0.4));
    const auto more = draw(1000 * 37, 0.42, 1);
    BOOST_TEST(!sparse.take(more.data(), 1000, 37, 64, 0.4));
  });
}

BOOST_AUTO_TEST_CASE(what_is_not_a_number_is_not_zero) {
  for_every_isa([](Isa) {
    std::vector<float> a(20, 0.0f);
    a[7] = not_a_number;
    a[18] = -0.0f;
    BOOST_TEST(sparse_loops().nonzeros(a.data(), a.size()) == 1u);
    float values[40];
    uint32_t places[40];
    BOOST_REQUIRE_EQUAL(
      sparse_loops().compress(a.data(), a.size(), values, places), 1u);
    BOOST_TEST(std::isnan(values[0]));
    BOOST_TEST(places[0] == 7u);
  });
}

BOOST_AUTO_TEST_SUITE_END()
