#include "tests/unit/kernels/operator_check.hpp"

#include <boost/test/unit_test.hpp>

#include <algorithm>

using namespace troupe;
using namespace troupe::test;

BOOST_AUTO_TEST_SUITE(movement_test)

namespace {

constexpr Tolerance exact = {0, 0};

/// Index of each extent of element i.
std::vector<size_t> place(const Shape& shape, size_t i) {
  std::vector<size_t> result(shape.size());
  for (size_t k = shape.size(); k-- > 0; i /= shape[k])
    result[k] = i % shape[k];
  return result;
}

size_t index(const Shape& shape, const std::vector<size_t>& at) {
  size_t result = 0;
  for (size_t k = 0; k < shape.size(); ++k)
    result = result * shape[k] + at[k];
  return result;
}

OperatorCase movement(OpKind kind, uint32_t rows, std::vector<Shape> inputs,
                      Shape output) {
  OperatorCase given;
  given.kind = kind;
  given.rows = rows;
  given.inputs = std::move(inputs);
  given.output = std::move(output);
  given.forward = exact;
  return given;
}

OperatorCase concat(uint32_t rows, std::vector<Shape> inputs, uint32_t axis) {
  auto output = inputs[0];
  for (size_t i = 1; i < inputs.size(); ++i)
    output[axis] += inputs[i][axis];
  auto given = movement(OpKind::concat, rows, inputs, output);
  given.attributes.axis = axis;
  given.reference = [=](const Operands& x) {
    std::vector<double> y;
    for (size_t i = 0; i < rows * elements(output); ++i) {
      auto at = place(output, i % elements(output));
      size_t input = 0;
      while (at[axis] >= inputs[input][axis])
        at[axis] -= inputs[input++][axis];
      y.push_back(x.inputs[input][i / elements(output) * elements(inputs[input])
                                  + index(inputs[input], at)]);
    }
    return y;
  };
  return given;
}

OperatorCase slice(uint32_t rows, Shape input, uint32_t axis, uint64_t begin,
                   uint64_t end) {
  auto output = input;
  output[axis] = end - begin;
  auto given = movement(OpKind::slice, rows, {input}, output);
  given.attributes.axis = axis;
  given.attributes.begin = begin;
  given.attributes.end = end;
  given.reference = [=](const Operands& x) {
    std::vector<double> y;
    for (size_t i = 0; i < rows * elements(output); ++i) {
      auto at = place(output, i % elements(output));
      at[axis] += begin;
      y.push_back(
        x.inputs[0][i / elements(output) * elements(input) + index(input, at)]);
    }
    return y;
  };
  return given;
}

OperatorCase transpose(uint32_t rows, Shape input,
                       std::vector<uint32_t> permutation) {
  Shape output;
  for (auto from : permutation)
    output.push_back(input[from]);
  auto given = movement(OpKind::transpose, rows, {input}, output);
  given.attributes.permutation = permutation;
  given.reference = [=](const Operands& x) {
    std::vector<double> y;
    for (size_t i = 0; i < rows * elements(output); ++i) {
      const auto at = place(output, i % elements(output));
      std::vector<size_t> from(input.size());
      for (size_t k = 0; k < permutation.size(); ++k)
        from[permutation[k]] = at[k];
      y.push_back(x.inputs[0][i / elements(output) * elements(output)
                              + index(input, from)]);
    }
    return y;
  };
  return given;
}

} // namespace

BOOST_AUTO_TEST_CASE(concat_joins_along_any_axis) {
  for (uint32_t rows : {1u, 3u}) {
    check_operator(concat(rows, {{1}, {1}}, 0));
    check_operator(concat(rows, {{5}, {17}, {2}}, 0));
    check_operator(concat(rows, {{2, 5}, {3, 5}}, 0));
    check_operator(concat(rows, {{3, 5}, {3, 2}, {3, 33}}, 1));
    check_operator(concat(rows, {{2, 3, 4}, {2, 1, 4}}, 1));
  }
}

BOOST_AUTO_TEST_CASE(slice_takes_a_part_of_any_axis) {
  for (uint32_t rows : {1u, 3u}) {
    check_operator(slice(rows, {1}, 0, 0, 1));
    check_operator(slice(rows, {37}, 0, 3, 20));
    check_operator(slice(rows, {4, 5}, 0, 1, 3));
    check_operator(slice(rows, {4, 5}, 1, 4, 5));
    check_operator(slice(rows, {3, 4, 2}, 1, 0, 3));
  }
}

BOOST_AUTO_TEST_CASE(transpose_permutes_any_extents) {
  for (uint32_t rows : {1u, 3u}) {
    check_operator(transpose(rows, {1}, {0}));
    check_operator(transpose(rows, {5, 7}, {1, 0}));
    check_operator(transpose(rows, {33, 18}, {1, 0}));
    check_operator(transpose(rows, {5, 1, 7}, {2, 1, 0}));
    std::vector<uint32_t> order{0, 1, 2};
    do
      check_operator(transpose(rows, {3, 17, 5}, order));
    while (std::next_permutation(order.begin(), order.end()));
    order = {0, 1, 2, 3};
    do
      check_operator(transpose(rows, {2, 3, 4, 5}, order));
    while (std::next_permutation(order.begin(), order.end()));
  }
}

BOOST_AUTO_TEST_CASE(reshape_keeps_every_element) {
  auto given = movement(OpKind::reshape, 3, {{4, 6}}, {2, 12});
  given.attributes.shape = {2, 12};
  given.reference = [](const Operands& x) { return x.inputs[0]; };
  check_operator(given);
}

BOOST_AUTO_TEST_SUITE_END()
