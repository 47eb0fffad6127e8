#include "tests/unit/kernels/matrix_reference.hpp"
#include "tests/unit/kernels/operator_check.hpp"

#include <boost/test/unit_test.hpp>

#include <algorithm>

using namespace troupe;
using namespace troupe::test;

BOOST_AUTO_TEST_SUITE(softmax_test)

namespace {

OperatorCase softmax(uint32_t rows, Shape shape) {
  OperatorCase given;
  given.kind = OpKind::softmax;
  given.rows = rows;
  given.inputs = {shape};
  given.output = shape;
  given.low = -5;
  given.high = 5;
  given.reference = [n = shape.back()](const Operands& x) {
    auto y = x.inputs[0];
    softmax_rows(y, n);
    return y;
  };
  return given;
}

} // namespace

BOOST_AUTO_TEST_CASE(softmax_follows_its_reference) {
  for (auto [rows, columns] :
       {std::pair{1u, 1u}, std::pair{3u, 2u}, std::pair{2u, 16u},
        std::pair{5u, 33u}, std::pair{17u, 130u}}) {
    check_operator(softmax(rows, {columns}));
    check_operator(softmax(rows, {3, columns}));
  }
}

BOOST_AUTO_TEST_CASE(softmax_bears_logits_far_apart) {
  auto given = softmax(4, {37});
  given.low = -500;
  given.high = 500;
  check_operator(given);
}

BOOST_AUTO_TEST_SUITE_END()
