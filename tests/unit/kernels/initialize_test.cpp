#include "kernels/graph/graph.hpp"

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

using namespace troupe;

BOOST_AUTO_TEST_SUITE(initialize_test)

namespace {

Graph one_parameter(Initializer initializer, double scale, uint64_t size) {
  Graph graph;
  graph.parameters.push_back({"weight", {size}, initializer, 1, scale});
  return graph;
}

std::vector<float> drawn(Initializer initializer, double scale,
                         uint64_t size = 200'000) {
  std::vector<float> values(size, std::numeric_limits<float>::quiet_NaN());
  initialize(one_parameter(initializer, scale, size), 3, 0, 0, values.data(),
             size);
  return values;
}

/// Mean of the values' powers.
double moment(const std::vector<float>& values, int power) {
  double sum = 0;
  for (auto value : values)
    sum += std::pow(double{value}, power);
  return sum / static_cast<double>(values.size());
}

/// The normal distribution's function, from the C library.
double normal(double x) {
  return 0.5 * std::erfc(-x / std::sqrt(2.0));
}

} // namespace

BOOST_AUTO_TEST_CASE(normal_values_have_the_moments_of_their_distribution) {
  constexpr double scale = 0.02;
  const auto values = drawn(Initializer::normal, scale);
  const auto count = static_cast<double>(values.size());
  // Each within five standard deviations of its estimate.
  BOOST_TEST(std::abs(moment(values, 1)) < 5 * scale / std::sqrt(count));
  const auto variance = scale * scale;
  BOOST_TEST(std::abs(moment(values, 2) - variance)
             < 5 * variance * std::sqrt(2 / count));
  BOOST_TEST(std::abs(moment(values, 4) - 3 * variance * variance)
             < 5 * variance * variance * std::sqrt(96 / count));
}

BOOST_AUTO_TEST_CASE(normal_values_have_the_quantiles_of_their_distribution) {
  auto values = drawn(Initializer::normal, 1);
  std::sort(values.begin(), values.end());
  // Kolmogorov's distance: 1.95 / sqrt(n) is passed once in a thousand draws.
  double distance = 0;
  const auto count = static_cast<double>(values.size());
  for (size_t i = 0; i < values.size(); ++i)
    distance = std::max(distance, std::abs(normal(double{values[i]})
                                           - static_cast<double>(i) / count));
  BOOST_TEST(distance < 1.95 / std::sqrt(count));
  // The tails are there: beyond four deviations lie 6.3e-5 of all.
  BOOST_TEST(values.front() < -4.0f);
  BOOST_TEST(values.back() > 4.0f);
}

BOOST_AUTO_TEST_CASE(uniform_values_fill_their_range) {
  constexpr double scale = 0.25;
  const auto values = drawn(Initializer::uniform, scale);
  const auto count = static_cast<double>(values.size());
  const auto [least, most] = std::minmax_element(values.begin(), values.end());
  BOOST_TEST(*least >= -0.25f);
  BOOST_TEST(*most <= 0.25f);
  BOOST_TEST(*least < -0.2499f);
  BOOST_TEST(*most > 0.2499f);
  BOOST_TEST(std::abs(moment(values, 1)) < 5 * scale / std::sqrt(3 * count));
  const auto variance = scale * scale / 3;
  BOOST_TEST(std::abs(moment(values, 2) - variance)
             < 5 * variance * std::sqrt(0.8 / count));
}

BOOST_AUTO_TEST_CASE(zeros_and_ones_are_what_they_say) {
  for (auto value : drawn(Initializer::zeros, 0, 33))
    BOOST_TEST(value == 0.0f);
  for (auto value : drawn(Initializer::ones, 0, 33))
    BOOST_TEST(value == 1.0f);
}

BOOST_AUTO_TEST_CASE(any_slice_has_the_same_bits) {
  for (auto initializer : {Initializer::uniform, Initializer::normal}) {
    const auto graph = one_parameter(initializer, 0.1, 1000);
    std::vector<float> whole(1000);
    initialize(graph, 9, 0, 0, whole.data(), whole.size());
    for (size_t begin = 0; begin < whole.size(); begin += 37)
      for (size_t count : {size_t{1}, size_t{16}, whole.size() - begin}) {
        count = std::min(count, whole.size() - begin);
        std::vector<float> part(count);
        initialize(graph, 9, 0, begin, part.data(), count);
        BOOST_REQUIRE_EQUAL(std::memcmp(part.data(), whole.data() + begin,
                                        count * sizeof(float)),
                            0);
      }
  }
}

BOOST_AUTO_TEST_CASE(values_are_pinned) {
  // Checkpoints and hashes of weights of another version rely on these.
  const auto normals = drawn(Initializer::normal, 0.02, 3);
  BOOST_TEST(normals[0] == 0x1.b6eba4p-6f);
  BOOST_TEST(normals[1] == -0x1.a6b12ep-8f);
  BOOST_TEST(normals[2] == -0x1.5dc4f8p-9f);
  const auto uniforms = drawn(Initializer::uniform, 0.05, 3);
  BOOST_TEST(uniforms[0] == 0x1.4fb3bep-5f);
  BOOST_TEST(uniforms[2] == -0x1.5bcff4p-8f);
}

BOOST_AUTO_TEST_SUITE_END()
