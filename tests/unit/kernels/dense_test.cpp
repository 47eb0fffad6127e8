#include "kernels/cpu/isa.hpp"
#include "tests/unit/kernels/activation_reference.hpp"
#include "tests/unit/kernels/matrix_reference.hpp"
#include "tests/unit/kernels/operator_check.hpp"

#include <boost/test/unit_test.hpp>

using namespace troupe;
using namespace troupe::test;

BOOST_AUTO_TEST_SUITE(dense_test)

namespace {

struct Form {
  Activation activation = Activation::none;
  bool bias = true;
  bool transposed = false;
};

OperatorCase dense(uint32_t rows, Shape input, uint64_t units, Form form) {
  OperatorCase given;
  given.kind = OpKind::dense;
  given.attributes.units = units;
  given.attributes.activation = form.activation;
  given.attributes.bias = form.bias;
  given.attributes.transposed = form.transposed;
  given.rows = rows;
  const auto n = input.back();
  given.inputs = {input};
  given.output = input;
  given.output.back() = units;
  given.parameters = {form.transposed ? Shape{units, n} : Shape{n, units}};
  if (form.bias)
    given.parameters.push_back({units});
  given.same_bits = SameBits::with_fma;
  given.reference = [=](const Operands& x) {
    auto y = dense_rows(x.inputs[0], n, x.parameters[0].data(), units,
                        form.transposed,
                        form.bias ? x.parameters[1].data() : nullptr);
    for (auto& value : y)
      value = activated(form.activation, value);
    return y;
  };
  return given;
}

constexpr uint32_t extents[][3] = {{1, 1, 1},
                                   {2, 7, 3},
                                   {5, 1, 17},
                                   {37, 31, 66},
                                   {50, 70, 90}}; // gradients of relu: sparse

} // namespace

BOOST_AUTO_TEST_CASE(dense_follows_its_reference) {
  for (auto activation : all_activations)
    for (auto [rows, inputs, units] : extents)
      check_operator(dense(rows, {inputs}, units, {.activation = activation}));
}

BOOST_AUTO_TEST_CASE(dense_takes_each_vector_of_a_sample_alone) {
  for (auto activation : {Activation::relu, Activation::gelu})
    for (auto [rows, inputs, units] : extents)
      check_operator(
        dense(rows, {3, inputs}, units, {.activation = activation}));
}

BOOST_AUTO_TEST_CASE(dense_of_many_rows_follows_its_reference) {
  for (auto activation : all_activations)
    for (uint64_t units : {uint64_t{72}, uint64_t{71}}) {
      auto given = dense(300, {5}, units, {.activation = activation});
      given.differences = 10;
      given.backward.absolute = 1e-4; // sums of 300
      check_operator(given);
    }
}

BOOST_AUTO_TEST_CASE(dense_does_without_a_bias) {
  for (auto activation : all_activations)
    for (auto [rows, inputs, units] : extents)
      check_operator(dense(rows, {inputs}, units,
                           {.activation = activation, .bias = false}));
}

BOOST_AUTO_TEST_CASE(dense_takes_a_weight_that_lies_transposed) {
  for (bool bias : {false, true})
    for (auto [rows, inputs, units] : extents)
      check_operator(
        dense(rows, {2, inputs}, units, {.bias = bias, .transposed = true}));
}

BOOST_AUTO_TEST_CASE(dense_in_bfloat16_is_as_near_as_its_operands) {
  if (!kernels::has_bfloat16()) {
    BOOST_TEST_MESSAGE("bfloat16 is not supported here");
    return;
  }
  for (auto activation : {Activation::none, Activation::gelu})
    for (bool transposed : {false, true})
      for (auto [rows, inputs, units] : extents) {
        auto given =
          dense(rows, {2, inputs}, units,
                {.activation = activation, .transposed = transposed});
        given.precision = Precision::bfloat16;
        given.same_bits = SameBits::nowhere;
        // Each of up to 98 products is off by 2^-8 of up to 1, either way.
        given.forward = given.backward = {6e-2, 1e-2};
        check_operator(given);
      }
}

BOOST_AUTO_TEST_SUITE_END()
