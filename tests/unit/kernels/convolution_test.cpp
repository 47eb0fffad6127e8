#include "kernels/base/error.hpp"
#include "kernels/cpu/isa.hpp"
#include "tests/unit/kernels/operator_check.hpp"

#include <Eigen/Core>
#include <boost/test/unit_test.hpp>

#include <algorithm>

using namespace troupe;
using namespace troupe::test;

BOOST_AUTO_TEST_SUITE(convolution_test)

namespace {

struct Sizes {
  uint32_t rows, height, width, channels, units, kernel, stride, padding,
    groups;
};

uint64_t windows(uint64_t extent, const Sizes& s) {
  return (extent + 2 * s.padding - s.kernel) / s.stride + 1;
}

using Matrix =
  Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

/// What each window sees of a group's channels, [windows, kernel * kernel *
/// channels]; zeros where it is padding.
Matrix seen_by_windows(const Sizes& s, uint64_t group,
                       const std::vector<double>& x) {
  const auto high = windows(s.height, s);
  const auto wide = windows(s.width, s);
  const uint64_t inputs = s.channels / s.groups;
  Matrix seen =
    Matrix::Zero(static_cast<Eigen::Index>(s.rows * high * wide),
                 static_cast<Eigen::Index>(s.kernel * s.kernel * inputs));
  auto* at = seen.data();
  for (uint64_t r = 0; r < s.rows; ++r)
    for (uint64_t i = 0; i < high; ++i)
      for (uint64_t j = 0; j < wide; ++j)
        for (uint64_t a = 0; a < s.kernel; ++a)
          for (uint64_t b = 0; b < s.kernel; ++b, at += inputs) {
            const auto row = i * s.stride + a - s.padding; // wraps below 0
            const auto column = j * s.stride + b - s.padding;
            if (row < s.height && column < s.width)
              std::copy_n(
                &x[((r * s.height + row) * s.width + column) * s.channels
                   + group * inputs],
                inputs, at);
          }
  return seen;
}

/// A convolution as its definition has it: products of windows and weights.
std::vector<double> convolve(const Sizes& s, bool bias, bool relu,
                             const Operands& x) {
  const auto places = static_cast<Eigen::Index>(s.rows * windows(s.height, s)
                                                * windows(s.width, s));
  const Eigen::Index outputs = s.units / s.groups;
  const auto& weights = x.parameters[0];
  const Eigen::Map<const Matrix> all_weights(
    weights.data(), static_cast<Eigen::Index>(weights.size()) / s.units,
    s.units);
  Matrix y = Matrix::Zero(places, s.units);
  if (bias)
    y.rowwise() = Eigen::Map<const Eigen::RowVectorXd>(x.parameters[1].data(),
                                                       s.units);
  for (uint32_t group = 0; group < s.groups; ++group)
    y.middleCols(group * outputs, outputs).noalias() +=
      seen_by_windows(s, group, x.inputs[0])
      * all_weights.middleCols(group * outputs, outputs);
  if (relu)
    y = y.cwiseMax(0.0);
  return {y.data(), y.data() + y.size()};
}

OperatorCase convolution(const Sizes& s, bool bias = true, bool relu = false) {
  OperatorCase given;
  given.kind = OpKind::conv2d;
  auto& attributes = given.attributes;
  attributes.units = s.units;
  attributes.kernel = s.kernel;
  attributes.stride = s.stride;
  attributes.padding = s.padding;
  attributes.groups = s.groups;
  attributes.bias = bias;
  attributes.activation = relu ? Activation::relu : Activation::none;
  given.rows = s.rows;
  given.inputs = {{s.height, s.width, s.channels}};
  given.output = {windows(s.height, s), windows(s.width, s), s.units};
  given.parameters = {{s.kernel, s.kernel, s.channels / s.groups, s.units}};
  if (bias)
    given.parameters.push_back({s.units});
  given.same_bits = SameBits::with_fma;
  given.reference = [=](const Operands& x) {
    return convolve(s, bias, relu, x);
  };
  return given;
}

} // namespace

BOOST_AUTO_TEST_CASE(convolution_follows_its_reference) {
  for (auto sizes : {
         Sizes{1, 1, 1, 1, 1, 1, 1, 0, 1},  // a product of two numbers
         Sizes{1, 1, 1, 1, 1, 3, 1, 1, 1},  // mostly padding
         Sizes{3, 7, 5, 1, 16, 3, 1, 1, 1}, // a grey image, as of digits
         Sizes{2, 9, 7, 1, 5, 5, 2, 2, 1},
         Sizes{2, 8, 9, 1, 16, 5, 1, 2, 1},
         Sizes{2, 6, 9, 4, 33, 2, 1, 0, 1},
         Sizes{2, 8, 8, 3, 16, 3, 1, 1, 1}, // a coloured one
         Sizes{5, 7, 6, 16, 32, 3, 1, 1, 1},
         Sizes{2, 7, 9, 16, 32, 3, 2, 1, 1},
         Sizes{2, 6, 7, 16, 32, 1, 2, 0, 1}, // a shortcut of a ResNet
         Sizes{3, 5, 5, 17, 31, 3, 1, 0, 1},
         Sizes{2, 11, 11, 6, 13, 4, 3, 1, 1},
         Sizes{2, 5, 6, 8, 7, 2, 3, 0, 1},    // places that no window has
         Sizes{1, 9, 8, 6, 5, 1, 4, 2, 1},    // windows of padding alone
         Sizes{1, 3, 3, 96, 9, 3, 1, 1, 1},   // lines of more than 256 places
         Sizes{1, 2, 300, 5, 3, 1, 1, 0, 1},  // and of windows
         Sizes{2, 2, 300, 40, 3, 1, 1, 0, 1}, // and for few units
         Sizes{1, 17, 16, 5, 7, 3, 1, 1, 1},  // two blocks of windows
         Sizes{1, 16, 16, 5, 37, 3, 1, 1, 1}, // and one that is packed
         Sizes{2, 8, 8, 20, 36, 3, 2, 1, 1},
       })
    for (bool relu : {false, true}) {
      check_operator(convolution(sizes, true, relu));
      check_operator(convolution(sizes, false, relu));
    }
}

// On a GPU these are products in tiles: of up to 256 places by 64 units, of 144
// elements of a window by 64 units, whose places are dealt to blocks in chunks
// of some steps.
BOOST_AUTO_TEST_CASE(tiles_chunks_and_steps_end_anywhere) {
  for (auto sizes : {
         Sizes{4, 28, 28, 1, 16, 5, 1, 2, 1}, // one step of each block
         Sizes{2, 32, 31, 3, 16, 3, 1, 1, 1},
         Sizes{1, 32, 32, 16, 16, 3, 1, 1, 1},
         Sizes{1, 14, 13, 16, 32, 5, 1, 2, 1}, // three tiles of 400 elements
         Sizes{3, 9, 8, 64, 72, 3, 2, 1, 1},   // and two of the units
         Sizes{2, 7, 6, 64, 64, 3, 1, 1, 1}, Sizes{3, 5, 5, 17, 67, 3, 1, 1, 1},
         Sizes{4, 11, 7, 20, 6, 3, 3, 2, 1},  // no fours of units
         Sizes{8, 14, 14, 80, 1, 5, 1, 2, 1}, // several steps of each
         Sizes{5, 11, 11, 81, 4, 5, 1, 2, 1},
         Sizes{9, 11, 10, 2, 24, 3, 1, 2, 1}, // tiles of places
         Sizes{2, 4, 5, 3, 8, 2, 1, 2, 1},    // windows of padding alone
         Sizes{70, 1, 1, 8, 8, 1, 1, 0, 1},   // images of one place
       }) {
    auto given = convolution(sizes);
    given.differences = 20;
    check_operator(given);
  }
}

BOOST_AUTO_TEST_CASE(groups_and_depthwise_follow_their_reference) {
  for (auto sizes : {
         Sizes{2, 6, 5, 6, 10, 3, 1, 1, 2}, Sizes{2, 6, 5, 32, 64, 3, 2, 1, 4},
         Sizes{2, 6, 5, 24, 16, 3, 1, 1, 2}, // lines of more than two vectors
         Sizes{2, 7, 7, 7, 7, 3, 1, 1, 7},   // depthwise
         Sizes{3, 8, 8, 32, 32, 3, 2, 1, 32},
         Sizes{2, 5, 5, 6, 12, 3, 1, 1, 6}, // two units a channel
       }) {
    check_operator(convolution(sizes));
    check_operator(convolution(sizes, false, true));
  }
}

BOOST_AUTO_TEST_CASE(bfloat16_follows_the_reference_as_closely_as_it_can) {
  if (!kernels::has_bfloat16()) {
    BOOST_TEST_MESSAGE("bfloat16 is not supported here");
    return;
  }
  for (auto sizes : {
         Sizes{3, 7, 5, 1, 16, 3, 1, 1, 1},
         Sizes{2, 8, 8, 3, 16, 3, 2, 1, 1},
         Sizes{2, 6, 6, 16, 32, 3, 1, 1, 1},
         Sizes{2, 6, 6, 16, 16, 3, 1, 1, 16},
         Sizes{2, 6, 6, 6, 10, 3, 1, 1, 2},
       }) {
    auto given = convolution(sizes);
    given.precision = Precision::bfloat16;
    given.same_bits = SameBits::nowhere;
    // Operands are rounded to 8 bits; sums of up to 144 products.
    given.forward = given.backward = {0.06, 0.01};
    check_operator(given);
  }
}

BOOST_AUTO_TEST_SUITE_END()
