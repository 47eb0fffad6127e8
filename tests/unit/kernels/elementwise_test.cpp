#include "kernels/numbers/random.hpp"
#include "tests/unit/kernels/activation_reference.hpp"
#include "tests/unit/kernels/matrix_reference.hpp"
#include "tests/unit/kernels/operator_check.hpp"

#include <boost/test/unit_test.hpp>

#include <cstring>
#include <limits>

using namespace troupe;
using namespace troupe::test;

BOOST_AUTO_TEST_SUITE(elementwise_test)

namespace {

/// Rows and a shape: one element, odd ones, more than a block of each loop.
struct Extents {
  uint32_t rows;
  Shape shape;
};
const Extents extents[] = {{1, {1}}, {3, {5}}, {2, {7, 11}}, {19, {4, 37}}};

/// An operator without attributes of its own, y shaped as each of its inputs.
OperatorCase elementwise(OpKind kind, const Extents& at, size_t inputs = 1) {
  OperatorCase given;
  given.kind = kind;
  given.rows = at.rows;
  given.inputs.assign(inputs, at.shape);
  given.output = at.shape;
  given.forward = float32_element;
  return given;
}

OperatorCase activation(Activation kind, const Extents& at) {
  auto given = elementwise(OpKind::activation, at);
  given.attributes.activation = kind;
  given.reference = [kind](const Operands& x) {
    auto y = x.inputs[0];
    for (auto& value : y)
      value = activated(kind, value);
    return y;
  };
  return given;
}

OperatorCase sum(Activation kind, const Extents& at, size_t inputs) {
  auto given = elementwise(OpKind::add, at, inputs);
  given.attributes.activation = kind;
  // The inputs may cancel.
  given.forward.absolute = 1e-6;
  given.reference = [kind](const Operands& x) {
    auto y = x.inputs[0];
    for (size_t i = 0; i < y.size(); ++i) {
      for (size_t k = 1; k < x.inputs.size(); ++k)
        y[i] += x.inputs[k][i];
      y[i] = activated(kind, y[i]);
    }
    return y;
  };
  return given;
}

OperatorCase dropout(float rate, const Extents& at, bool training = true) {
  auto given = elementwise(OpKind::dropout, at);
  given.attributes.rate = rate;
  given.training = training;
  given.reference = [=, key = given.key](const Operands& x) {
    auto y = x.inputs[0];
    const auto stream = kernels::stream_key(key, 0);
    const auto threshold = std::llround(rate * 0x1p24);
    for (size_t i = 0; training && i < y.size(); ++i)
      y[i] = static_cast<long long>(kernels::random_bits(stream, i) >> 40)
                 >= threshold
               ? y[i] / (1 - double{rate})
               : 0.0;
    return y;
  };
  return given;
}

/// One pass of an activation over given values, on the CPU.
std::vector<float> values_of(Activation kind, std::vector<float> x) {
  auto given = activation(kind, {1, {x.size()}});
  auto device = kernels::make_device({}, Precision::float32);
  Graph graph;
  graph.values = {{"x", given.output}, {"y", given.output}};
  graph.ops = {{OpKind::activation, "op", {0}, 1, {}, given.attributes}};
  auto op = device->make_operator(graph, 0, 1);
  std::vector<float> y(x.size());
  kernels::OpArgs args;
  args.rows = 1;
  args.inputs = {x.data()};
  args.output = y.data();
  op->forward(args);
  return y;
}

} // namespace

BOOST_AUTO_TEST_CASE(activations_follow_their_references) {
  for (auto kind : all_activations)
    for (const auto& at : extents) {
      check_operator(activation(kind, at));
      auto wide = activation(kind, at);
      wide.low = -12;
      wide.high = 12;
      wide.forward = {2e-6, 1e-6};
      check_operator(wide);
    }
}

BOOST_AUTO_TEST_CASE(activations_are_exact_to_a_few_units_in_the_last_place) {
  std::vector<float> x;
  for (int i = -40000; i <= 40000; ++i)
    x.push_back(static_cast<float>(i) * 5e-4f);
  for (auto kind : all_activations) {
    const auto y = values_of(kind, x);
    std::vector<double> want;
    want.reserve(x.size());
    for (auto value : x)
      want.push_back(activated(kind, value));
    BOOST_TEST_CONTEXT("activation " << static_cast<int>(kind))
    check_within({2e-7, 4e-7}, y, want, want.size());
  }
}

BOOST_AUTO_TEST_CASE(activations_of_extreme_values_stay_in_range) {
  const auto huge = std::numeric_limits<float>::max();
  const auto infinite = std::numeric_limits<float>::infinity();
  const auto nan = std::numeric_limits<float>::quiet_NaN();
  for (auto kind : all_activations) {
    const auto y =
      values_of(kind, {-huge, -1e4f, -100, 0, 100, 1e4f, huge, infinite, nan});
    for (size_t i = 0; i < 7; ++i)
      BOOST_TEST(std::isfinite(y[i]));
    const bool unbounded = kind != Activation::tanh
                           && kind != Activation::sigmoid;
    BOOST_TEST(y[6] == (unbounded ? huge : 1.0f));
    BOOST_TEST(y[7] == (unbounded ? infinite : 1.0f));
    BOOST_TEST(std::isnan(y[8]));
    if (kind != Activation::none)
      BOOST_TEST(std::abs(y[2]) <= 1.0f);
  }
}

BOOST_AUTO_TEST_CASE(add_sums_two_or_more_inputs_and_activates) {
  for (auto kind : all_activations)
    for (const auto& at : extents)
      for (size_t inputs : {2, 3, 5})
        check_operator(sum(kind, at, inputs));
}

BOOST_AUTO_TEST_CASE(multiply_follows_its_reference) {
  for (const auto& at : extents) {
    auto given = elementwise(OpKind::multiply, at, 2);
    given.reference = [](const Operands& x) {
      auto y = x.inputs[0];
      for (size_t i = 0; i < y.size(); ++i)
        y[i] *= x.inputs[1][i];
      return y;
    };
    check_operator(given);
  }
}

BOOST_AUTO_TEST_CASE(swiglu_gates_one_half_by_the_other) {
  for (const auto& shape :
       {Shape{2}, Shape{14}, Shape{3, 34}, Shape{2, 5, 64}}) {
    OperatorCase given;
    given.kind = OpKind::swiglu;
    given.rows = 3;
    given.inputs = {shape};
    given.output = shape;
    given.output.back() /= 2;
    given.low = -6;
    given.high = 6;
    const auto width = given.output.back();
    given.reference = [=](const Operands& x) {
      return gated_rows(x.inputs[0], width);
    };
    check_operator(given);
  }
}

BOOST_AUTO_TEST_CASE(bias_adds_a_parameter_to_every_row) {
  for (const auto& at : extents) {
    auto given = elementwise(OpKind::bias, at);
    given.parameters = {at.shape};
    given.reference = [](const Operands& x) {
      auto y = x.inputs[0];
      for (size_t i = 0; i < y.size(); ++i)
        y[i] += x.parameters[0][i % x.parameters[0].size()];
      return y;
    };
    given.forward.absolute = 1e-6;
    check_operator(given);
  }
}

BOOST_AUTO_TEST_CASE(dropout_keeps_what_the_stream_of_its_operator_says) {
  for (float rate : {0.0f, 0.1f, 0.5f, 0.9f})
    for (const auto& at : extents)
      check_operator(dropout(rate, at));
}

BOOST_AUTO_TEST_CASE(dropout_of_an_evaluation_changes_nothing) {
  for (const auto& at : extents)
    check_operator(dropout(0.5f, at, false));
}

BOOST_AUTO_TEST_CASE(dropout_drops_about_the_share_it_is_asked_for) {
  for (float rate : {0.1f, 0.5f}) {
    auto given = dropout(rate, {100, {1000}});
    Operands ones{100, {std::vector<double>(100'000, 1.0)}, {}};
    double dropped = 0;
    for (auto value : given.reference(ones))
      dropped += value == 0;
    // Five standard deviations.
    BOOST_TEST(std::abs(dropped - rate * 1e5)
               < 5 * std::sqrt(1e5 * rate * (1 - rate)));
    given.differences = 3;
    check_operator(given);
  }
}

BOOST_AUTO_TEST_SUITE_END()
