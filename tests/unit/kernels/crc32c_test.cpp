#include "kernels/base/crc32c.hpp"

#include <boost/test/unit_test.hpp>

#include <cstring>
#include <string>

using namespace troupe;

BOOST_AUTO_TEST_SUITE(crc32c_suite)

namespace {

uint32_t bit_by_bit(uint32_t crc, const uint8_t* bytes, size_t size) {
  crc = ~crc;
  for (size_t i = 0; i < size; ++i) {
    crc ^= bytes[i];
    for (int bit = 0; bit < 8; ++bit)
      crc = (crc >> 1) ^ (crc & 1 ? 0x82f63b78u : 0u);
  }
  return ~crc;
}

std::vector<uint8_t> some_bytes(size_t size) {
  std::vector<uint8_t> bytes(size);
  uint32_t state = 12345;
  for (auto& byte : bytes)
    byte = static_cast<uint8_t>((state = state * 1664525 + 1013904223) >> 24);
  return bytes;
}

} // namespace

BOOST_AUTO_TEST_CASE(published_values_come_out) {
  // RFC 3720, appendix B.4, and the catalogue's check value.
  const std::vector<uint8_t> zeros(32, 0);
  const std::vector<uint8_t> ones(32, 0xff);
  for (const auto& way : kernels::crc32c_ways()) {
    BOOST_TEST_CONTEXT(way.name) {
      BOOST_CHECK_EQUAL(way.compute(0, "123456789", 9), 0xe3069283u);
      BOOST_CHECK_EQUAL(way.compute(0, zeros.data(), 32), 0x8a9136aau);
      BOOST_CHECK_EQUAL(way.compute(0, ones.data(), 32), 0x62a8ab43u);
      BOOST_CHECK_EQUAL(way.compute(0, nullptr, 0), 0u);
    }
  }
}

BOOST_AUTO_TEST_CASE(every_way_agrees_with_bits_at_all_lengths_and_addresses) {
  const auto bytes = some_bytes(10'000);
  for (const auto& way : kernels::crc32c_ways()) {
    BOOST_TEST_CONTEXT(way.name) {
      size_t wrong = 0;
      for (size_t offset = 0; offset < 17; ++offset)
        for (size_t size = 0; size <= 300; ++size)
          wrong += way.compute(7, &bytes[offset], size)
                   != bit_by_bit(7, &bytes[offset], size);
      for (size_t size = 301; size < 9'900; size += 61)
        wrong += way.compute(0, &bytes[size % 64], size)
                 != bit_by_bit(0, &bytes[size % 64], size);
      BOOST_CHECK_EQUAL(wrong, 0u);
    }
  }
}

BOOST_AUTO_TEST_CASE(every_way_agrees_with_bits_over_long_runs) {
  const auto bytes = some_bytes(210'000);
  for (size_t size : {49'407u, 49'408u, 49'409u, 98'815u, 98'816u, 100'001u,
                      150'000u, 209'990u}) {
    const auto right = bit_by_bit(3, &bytes[5], size);
    for (const auto& way : kernels::crc32c_ways())
      BOOST_CHECK_MESSAGE(way.compute(3, &bytes[5], size) == right,
                          way.name << ", " << size << " bytes");
  }
}

BOOST_AUTO_TEST_CASE(pieces_in_a_row_give_the_whole) {
  const auto bytes = some_bytes(4'000);
  const auto whole = bit_by_bit(0, bytes.data(), bytes.size());
  for (const auto& way : kernels::crc32c_ways())
    for (size_t cut = 0; cut <= bytes.size(); cut += 37) {
      const auto first = way.compute(0, bytes.data(), cut);
      BOOST_REQUIRE_EQUAL(
        way.compute(first, bytes.data() + cut, bytes.size() - cut), whole);
    }
  BOOST_CHECK_EQUAL(crc32c(0, bytes.data(), bytes.size()), whole);
}

BOOST_AUTO_TEST_CASE(one_wrong_bit_changes_it) {
  auto bytes = some_bytes(1'500);
  const auto right = crc32c(0, bytes.data(), bytes.size());
  for (size_t i = 0; i < bytes.size(); ++i) {
    bytes[i] ^= static_cast<uint8_t>(1u << (i % 8));
    BOOST_REQUIRE_NE(crc32c(0, bytes.data(), bytes.size()), right);
    bytes[i] ^= static_cast<uint8_t>(1u << (i % 8));
  }
}

BOOST_AUTO_TEST_SUITE_END()
