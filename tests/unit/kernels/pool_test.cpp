#include "tests/unit/kernels/operator_check.hpp"

#include <boost/test/unit_test.hpp>

#include <limits>

using namespace troupe;
using namespace troupe::test;

BOOST_AUTO_TEST_SUITE(pool_test)

namespace {

struct Sizes {
  uint32_t rows, height, width, channels, kernel, stride, padding;
};

uint64_t windows(uint64_t extent, const Sizes& s) {
  return s.kernel == 0 ? 1 : (extent + 2 * s.padding - s.kernel) / s.stride + 1;
}

std::vector<double> pooled(const Sizes& s, bool largest, const Operands& x) {
  const auto high = s.kernel == 0 ? s.height : s.kernel;
  const auto wide = s.kernel == 0 ? s.width : s.kernel;
  std::vector<double> y;
  for (uint64_t r = 0; r < s.rows; ++r)
    for (uint64_t i = 0; i < windows(s.height, s); ++i)
      for (uint64_t j = 0; j < windows(s.width, s); ++j)
        for (uint64_t c = 0; c < s.channels; ++c) {
          double sum = 0;
          double most = -std::numeric_limits<double>::infinity();
          int count = 0;
          for (uint64_t a = 0; a < high; ++a)
            for (uint64_t b = 0; b < wide; ++b) {
              const auto row = i * s.stride + a - s.padding; // wraps below 0
              const auto column = j * s.stride + b - s.padding;
              if (row >= s.height || column >= s.width)
                continue;
              const auto value =
                x.inputs[0]
                        [((r * s.height + row) * s.width + column) * s.channels
                         + c];
              sum += value;
              most = std::max(most, value);
              ++count;
            }
          y.push_back(largest ? most : sum / count);
        }
  return y;
}

OperatorCase pool(const Sizes& s, OpKind kind) {
  OperatorCase given;
  given.kind = kind;
  given.attributes.kernel = s.kernel;
  given.attributes.stride = s.stride;
  given.attributes.padding = s.padding;
  given.rows = s.rows;
  given.inputs = {{s.height, s.width, s.channels}};
  given.output = {windows(s.height, s), windows(s.width, s), s.channels};
  given.reference = [=](const Operands& x) {
    return pooled(s, kind == OpKind::max_pool, x);
  };
  return given;
}

/// A pool 2x2 of stride 1 over one 2x3 image, straight through a device:
/// returns output and the input's gradient for output gradients 1 and 10.
std::array<std::vector<float>, 2> walked(std::vector<float> image) {
  Graph graph;
  graph.values = {{"x", {2, 3, 1}, ValueType::float32},
                  {"y", {1, 2, 1}, ValueType::float32}};
  Op op;
  op.kind = OpKind::max_pool;
  op.name = "pool";
  op.attributes.kernel = 2;
  op.inputs = {0};
  op.output = 1;
  graph.ops = {op};
  auto device = kernels::make_device({}, Precision::float32);
  auto made = device->make_operator(graph, 0, 1);
  kernels::OpArgs args;
  args.rows = 1;
  args.training = true;
  args.inputs = {image.data()};
  std::vector<float> output(2), gradient(6);
  args.output = output.data();
  args.saved = device->allocate(made->needs().saved.of(1));
  made->forward(args);
  std::vector<float> asked = {1, 10};
  args.output_gradient = asked.data();
  args.input_gradients = {gradient.data()};
  args.accumulate_inputs = {0};
  made->backward(args);
  return {output, gradient};
}

} // namespace

BOOST_AUTO_TEST_CASE(pools_follow_their_references) {
  for (auto kind : {OpKind::max_pool, OpKind::average_pool})
    for (auto sizes : {
           Sizes{1, 1, 1, 1, 1, 1, 0},
           Sizes{3, 6, 8, 16, 2, 2, 0}, // side by side
           Sizes{2, 7, 5, 3, 2, 2, 0},  // a rest that no window holds
           Sizes{2, 7, 9, 17, 3, 2, 1}, // overlapping
           Sizes{2, 9, 7, 24, 3, 2, 1}, // so, eights of channels
           Sizes{2, 5, 5, 33, 3, 1, 1}, Sizes{2, 8, 7, 5, 2, 3, 0}, // with gaps
           Sizes{1, 4, 4, 2, 5, 4, 2},
           Sizes{3, 4, 7, 35, 0, 1, 0}, // the whole image
         })
      check_operator(pool(sizes, kind));
}

BOOST_AUTO_TEST_CASE(of_equal_values_the_first_gets_the_gradient) {
  auto [output, gradient] = walked({2, 2, 1, 2, 2, 2});
  BOOST_TEST(output == (std::vector<float>{2, 2}),
             boost::test_tools::per_element());
  BOOST_TEST(gradient == (std::vector<float>{1, 10, 0, 0, 0, 0}),
             boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(least_values_are_found_and_a_nan_stays) {
  const auto least = -std::numeric_limits<float>::infinity();
  auto [output, gradient] = walked({least, least, least, least, least, least});
  BOOST_TEST(output[0] == least);
  BOOST_TEST(gradient[0] == 1);
  const auto nan = std::numeric_limits<float>::quiet_NaN();
  auto [with, unused] = walked({nan, 5, 6, 7, 8, 9});
  BOOST_TEST(with[0] != with[0]);
  BOOST_TEST(with[1] == 9);
}

BOOST_AUTO_TEST_SUITE_END()
