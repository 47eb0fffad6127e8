#include "tests/unit/kernels/operator_check.hpp"

#include <boost/test/unit_test.hpp>

#include <algorithm>

using namespace troupe;
using namespace troupe::test;

namespace {

OperatorCase dense(uint32_t rows, Shape input, uint64_t units,
                   Activation activation) {
  OperatorCase given;
  given.kind = OpKind::dense;
  given.attributes.units = units;
  given.attributes.activation = activation;
  given.rows = rows;
  const auto n = input.back();
  given.inputs = {input};
  given.output = input;
  given.output.back() = units;
  given.parameters = {{n, units}, {units}};
  given.same_on_every_isa = false;
  given.reference = [=](const Operands& x) {
    const auto vectors = x.inputs[0].size() / n;
    std::vector<double> y(vectors * units);
    for (size_t r = 0; r < vectors; ++r)
      for (size_t c = 0; c < units; ++c) {
        auto sum = x.parameters[1][c];
        for (size_t k = 0; k < n; ++k)
          sum += x.inputs[0][r * n + k] * x.parameters[0][k * units + c];
        y[r * units + c] = activation == Activation::relu ? std::max(sum, 0.0)
                                                          : sum;
      }
    return y;
  };
  return given;
}

} // namespace

BOOST_AUTO_TEST_SUITE(dense_test)

BOOST_AUTO_TEST_CASE(dense_follows_its_reference) {
  for (auto activation : {Activation::none, Activation::relu})
    for (auto [rows, inputs, units] :
         {std::array{1u, 1u, 1u}, std::array{2u, 7u, 3u},
          std::array{5u, 1u, 17u}, std::array{37u, 31u, 66u}}) {
      check_operator(dense(rows, {inputs}, units, activation));
      check_operator(dense(rows, {3, inputs}, units, activation));
    }
}

BOOST_AUTO_TEST_SUITE_END()
