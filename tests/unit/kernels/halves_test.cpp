#include "tests/unit/kernels/compressed.hpp"

#include <boost/test/unit_test.hpp>

using namespace troupe;
using namespace troupe::test;

BOOST_AUTO_TEST_SUITE(halves_test)

namespace {

constexpr auto infinity = std::numeric_limits<float>::infinity();

/// Value of a code of either 16-bit format, in float64.
double value_of(bool bfloat, uint32_t code) {
  const auto digits = bfloat ? 7 : 10;
  const auto bias = bfloat ? 127 : 15;
  const auto exponent = static_cast<int>((code & 0x7fff) >> digits);
  const auto mantissa = static_cast<double>(code & ((1u << digits) - 1));
  const auto size = exponent == 0 ? std::ldexp(mantissa, 1 - bias - digits)
                                  : std::ldexp(mantissa + (1 << digits),
                                               exponent - bias - digits);
  return code & 0x8000 ? -size : size;
}

uint16_t code_of(const CompressedBytes& bytes, size_t i) {
  uint16_t code = 0;
  std::memcpy(&code, bytes.data() + 2 * i, 2);
  return code;
}

} // namespace

BOOST_AUTO_TEST_CASE(every_16_bit_pattern_has_its_value_and_comes_back) {
  for (bool bfloat : {false, true}) {
    const Compression format{
      bfloat ? CompressionKind::bfloat16 : CompressionKind::float16, 0};
    const uint32_t infinite = bfloat ? 0x7f80 : 0x7c00;
    CompressedBytes codes(2 << 16);
    for (uint32_t code = 0; code < 1 << 16; ++code) {
      const auto narrow = static_cast<uint16_t>(code);
      std::memcpy(&codes[2 * code], &narrow, 2);
    }
    const auto values = decompressed(format, codes, 1 << 16);
    const auto again = compressed(format, values);
    for (uint32_t code = 0; code < 1 << 16; ++code) {
      const auto size = code & 0x7fff;
      if (size > infinite) {
        BOOST_REQUIRE(std::isnan(values[code]));
        BOOST_REQUIRE((code_of(again, code) & 0x7fff) > infinite);
        continue;
      }
      const auto want = size < infinite ? value_of(bfloat, code)
                        : code & 0x8000 ? -double{infinity}
                                        : double{infinity};
      BOOST_REQUIRE_EQUAL(values[code], want);
      BOOST_REQUIRE_EQUAL(std::signbit(values[code]), (code & 0x8000) != 0);
      BOOST_REQUIRE_EQUAL(code_of(again, code), code);
    }
  }
}

BOOST_AUTO_TEST_CASE(sixteen_bits_are_rounded_to_the_nearest_ties_to_even) {
  for (bool bfloat : {false, true}) {
    const Compression format{
      bfloat ? CompressionKind::bfloat16 : CompressionKind::float16, 0};
    const uint32_t largest = bfloat ? 0x7f7f : 0x7bff;
    auto values = random_values(20'000, 5);
    for (int i = -30; i < 20; ++i) // tiny ones and ties
      for (auto mantissa : {1.0f, 1.5f, 1.0f + 0x1p-11f, 1.0f + 0x1p-8f,
                            1.0f + 3 * 0x1p-11f, 1.0f + 3 * 0x1p-8f})
        values.push_back(std::ldexp(mantissa, i));
    values.push_back(3e38f);
    values.push_back(std::numeric_limits<float>::max());
    const auto bytes = compressed(format, values);
    for (size_t i = 0; i < values.size(); ++i) {
      const auto code = code_of(bytes, i) & 0x7fffu;
      const auto size = std::abs(double{values[i]});
      const auto error = std::abs(value_of(bfloat, code) - size);
      for (auto other : {code - 1, code + 1}) {
        if (other > largest // below zero, beyond the largest
            || (code == largest && size > value_of(bfloat, largest)))
          continue;
        const auto alternative = std::abs(value_of(bfloat, other) - size);
        BOOST_REQUIRE_MESSAGE(error < alternative
                                || (error == alternative && code % 2 == 0),
                              size << " is sent as " << value_of(bfloat, code)
                                   << ", code " << code);
      }
    }
  }
}

BOOST_AUTO_TEST_SUITE_END()
