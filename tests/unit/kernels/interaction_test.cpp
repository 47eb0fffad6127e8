#include "tests/unit/kernels/matrix_reference.hpp"
#include "tests/unit/kernels/operator_check.hpp"

#include <boost/test/unit_test.hpp>

using namespace troupe;
using namespace troupe::test;

BOOST_AUTO_TEST_SUITE(interaction_test)

namespace {

OperatorCase interaction(uint32_t rows, uint64_t n, uint64_t width) {
  OperatorCase given;
  given.kind = OpKind::interaction;
  given.rows = rows;
  given.inputs = {{n, width}};
  given.output = {n * (n - 1) / 2};
  given.reference = [=](const Operands& x) {
    const auto pairs = n * (n - 1) / 2;
    std::vector<double> y(rows * pairs);
    for (size_t r = 0; r < rows; ++r)
      interact(&x.inputs[0][r * n * width], n, width, &y[r * pairs]);
    return y;
  };
  return given;
}

OperatorCase factorization(uint32_t rows, uint64_t n, uint64_t width) {
  OperatorCase given;
  given.kind = OpKind::factorization;
  given.rows = rows;
  given.inputs = {{n, width}};
  given.output = {1};
  given.reference = [=](const Operands& x) {
    std::vector<double> y(rows);
    for (size_t r = 0; r < rows; ++r)
      y[r] = factorize(&x.inputs[0][r * n * width], n, width);
    return y;
  };
  return given;
}

} // namespace

BOOST_AUTO_TEST_CASE(interaction_is_the_dot_product_of_each_pair) {
  check_operator(interaction(1, 2, 1));
  check_operator(interaction(3, 5, 7));
  check_operator(interaction(2, 9, 16));
  check_operator(interaction(2, 27, 33));
  check_operator(interaction(1, 40, 130));
}

BOOST_AUTO_TEST_CASE(factorization_is_the_sum_of_all_pairs) {
  check_operator(factorization(1, 1, 1));
  check_operator(factorization(3, 5, 7));
  check_operator(factorization(2, 9, 16));
  auto wide = factorization(2, 39, 45);
  wide.forward = wide.backward = {1e-4, 2e-5}; // sums of 1,500 products
  check_operator(wide);
}

BOOST_AUTO_TEST_SUITE_END()
