#include "tests/unit/kernels/matrix_reference.hpp"
#include "tests/unit/kernels/operator_check.hpp"

#include <boost/test/unit_test.hpp>

using namespace troupe;
using namespace troupe::test;

BOOST_AUTO_TEST_SUITE(layer_norm_test)

namespace {

OperatorCase norm(OpKind kind, uint32_t rows, Shape shape, bool bias) {
  OperatorCase given;
  given.kind = kind;
  given.attributes.bias = bias;
  given.attributes.epsilon = 1e-3f;
  given.rows = rows;
  given.inputs = {shape};
  given.output = shape;
  const auto n = shape.back();
  given.parameters = {{n}};
  if (bias)
    given.parameters.push_back({n});
  given.reference = [=, epsilon = given.attributes.epsilon](const Operands& x) {
    auto y = x.inputs[0];
    norm_rows(y, n, kind == OpKind::layer_norm, double{epsilon},
              x.parameters[0].data(), bias ? x.parameters[1].data() : nullptr);
    return y;
  };
  return given;
}

} // namespace

BOOST_AUTO_TEST_CASE(norms_follow_their_references) {
  for (auto kind : {OpKind::layer_norm, OpKind::rms_norm})
    for (bool bias : {false, true})
      for (auto [rows, columns] :
           {std::pair{1u, 1u}, std::pair{3u, 2u}, std::pair{5u, 15u},
            std::pair{2u, 16u}, std::pair{7u, 17u}, std::pair{33u, 131u}}) {
        if (kind == OpKind::rms_norm && bias)
          continue;
        check_operator(norm(kind, rows, {columns}, bias));
        check_operator(norm(kind, rows, {3, columns}, bias));
      }
}

BOOST_AUTO_TEST_CASE(norms_of_long_rows_follow_their_references) {
  for (auto [rows, columns] :
       {std::pair{19u, 64u}, std::pair{3u, 260u}, std::pair{2u, 768u},
        std::pair{17u, 1024u}, std::pair{2u, 1028u}, std::pair{3u, 2052u},
        std::pair{2u, 4100u}, std::pair{1u, 8200u}, std::pair{2u, 1031u}})
    for (auto kind : {OpKind::layer_norm, OpKind::rms_norm}) {
      auto given = norm(kind, rows, {columns}, kind == OpKind::layer_norm);
      given.differences = 10;
      check_operator(given);
    }
  auto many = norm(OpKind::layer_norm, 2100, {12}, true);
  many.differences = 10;
  check_operator(many);
}

BOOST_AUTO_TEST_CASE(layer_norm_bears_a_mean_far_from_zero) {
  auto given = norm(OpKind::layer_norm, 4, {64}, true);
  given.low = 1000;
  given.high = 1004;
  // The inputs are known to 6e-5 of their spread.
  given.forward = {1e-3, 1e-3};
  given.backward = {1e-3, 1e-3};
  check_operator(given);
}

BOOST_AUTO_TEST_SUITE_END()
