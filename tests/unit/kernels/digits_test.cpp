#include "kernels/data/digits.hpp"
#include "kernels/files/safetensors.hpp"

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <vector>

BOOST_AUTO_TEST_SUITE(digits)

namespace {

using troupe::synthetic_digits;

constexpr size_t pixels = 784;

std::vector<uint8_t> image(const troupe::Dataset& set, size_t sample) {
  const auto first = set.bytes.begin()
                     + static_cast<std::ptrdiff_t>(sample * pixels);
  return {first, first + pixels};
}

std::string hash(const troupe::Dataset& set) {
  std::vector<uint8_t> bytes(set.bytes.begin(), set.bytes.end());
  bytes.insert(bytes.end(), set.labels.begin(), set.labels.end());
  return troupe::sha256(std::as_bytes(std::span{bytes}));
}

} // namespace

BOOST_AUTO_TEST_CASE(a_set_has_its_sizes_and_scale) {
  const auto set = synthetic_digits(5, 0);
  BOOST_TEST(set.name == "synthetic:digits");
  BOOST_TEST(set.samples() == 5u);
  BOOST_TEST(set.features() == pixels);
  BOOST_TEST(set.shape.classes == 10u);
  BOOST_TEST(set.bytes.size() == 5 * pixels);
  BOOST_TEST(set.values.empty());
  BOOST_TEST(set.scale == 1.0f / 255.0f);
}

BOOST_AUTO_TEST_CASE(the_first_digits_are_the_same_on_every_machine) {
  BOOST_TEST(hash(synthetic_digits(100, 0))
             == "940598a4cd56facaa3d8ab89eafb62cf"
                "1365111bcc3750cff60a559913cb5ca9");
  BOOST_TEST(hash(synthetic_digits(100, 18446744073709551615u))
             == "7c7798f88704001645dde051a8ca1eee"
                "3432de5e939f66ed911ddebe767607bf");
}

BOOST_AUTO_TEST_CASE(a_sample_does_not_depend_on_how_many_there_are) {
  const auto many = synthetic_digits(300, 7);
  for (size_t count : {1u, 2u, 17u, 299u}) {
    const auto few = synthetic_digits(count, 7);
    BOOST_TEST(
      std::equal(few.bytes.begin(), few.bytes.end(), many.bytes.begin()));
    BOOST_TEST(
      std::equal(few.labels.begin(), few.labels.end(), many.labels.begin()));
  }
}

BOOST_AUTO_TEST_CASE(samples_and_seeds_differ_from_each_other) {
  const auto set = synthetic_digits(200, 1);
  for (size_t i = 0; i < 200; ++i)
    for (size_t j = 0; j < i; ++j)
      BOOST_TEST((image(set, i) != image(set, j)));
  // Neighbouring seeds are not the same samples, shifted.
  const auto next = synthetic_digits(200, 2);
  for (size_t i = 0; i < 200; ++i)
    for (size_t j = 0; j < 200; ++j)
      BOOST_TEST((image(set, i) != image(next, j)));
}

BOOST_AUTO_TEST_CASE(each_class_occurs_about_as_often) {
  const auto set = synthetic_digits(10000, 3);
  std::vector<int> counts(10);
  for (auto label : set.labels) {
    BOOST_REQUIRE(label >= 0);
    BOOST_REQUIRE(label <= 9);
    ++counts[static_cast<size_t>(label)];
  }
  // Five standard deviations are 150.
  for (auto count : counts)
    BOOST_TEST(std::abs(count - 1000) < 150);
}

BOOST_AUTO_TEST_CASE(each_picture_shows_ink_on_paper) {
  const auto set = synthetic_digits(2000, 4);
  for (size_t i = 0; i < 2000; ++i) {
    const auto picture = image(set, i);
    const auto ink = std::count_if(picture.begin(), picture.end(),
                                   [](auto grey) { return grey > 110; });
    BOOST_TEST(ink >= 15);
    BOOST_TEST(ink <= 350);
  }
}

BOOST_AUTO_TEST_SUITE_END()
