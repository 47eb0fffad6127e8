#include "actors/links/frame.hpp"
#include "kernels/base/crc32c.hpp"

#include <boost/test/unit_test.hpp>

#include <cstring>

using namespace troupe;

BOOST_AUTO_TEST_SUITE(frame_suite)

namespace {

FrameHeader some_header() {
  FrameHeader header;
  header.kind = FrameKind::sum;
  header.job = 0x0102030405060708;
  header.term = 3;
  header.epoch = 1ull << 40;
  header.step = ~uint64_t{0};
  header.begin = 1'000'000'007;
  header.opaque = 0xfedcba9876543210;
  header.group = 5;
  header.bucket = 6;
  header.part = 7;
  header.payload_bytes = 1 << 20;
  header.payload_crc = 0xdeadbeef;
  return header;
}

/// Puts the right checksum under changed bytes.
FrameBytes sealed(FrameBytes bytes) {
  const auto crc = crc32c(0, bytes.data(), bytes.size() - 4);
  std::memcpy(&bytes[bytes.size() - 4], &crc, sizeof crc);
  return bytes;
}

bool decodes_as(const FrameBytes& bytes, FrameFault fault) {
  return decode_frame(bytes).fault == fault;
}

} // namespace

BOOST_AUTO_TEST_CASE(a_header_comes_back_as_it_went) {
  const auto decoded = decode_frame(encode_frame(some_header()));
  BOOST_CHECK(decoded.fault == FrameFault::none);
  BOOST_CHECK(decoded.header == some_header());
}

BOOST_AUTO_TEST_CASE(the_wire_has_the_documented_layout) {
  const auto bytes = encode_frame(some_header());
  BOOST_CHECK_EQUAL(std::memcmp(bytes.data(), "TRLK\x01\0\x02\0", 8), 0);
  BOOST_CHECK_EQUAL(
    std::memcmp(&bytes[8], "\x08\x07\x06\x05\x04\x03\x02\x01", 8), 0);
  BOOST_CHECK_EQUAL(
    std::memcmp(&bytes[56], "\x05\0\0\0\x06\0\0\0\x07\0\0\0", 12), 0);
  BOOST_CHECK_EQUAL(std::memcmp(&bytes[72], "\xef\xbe\xad\xde", 4), 0);
}

BOOST_AUTO_TEST_CASE(every_wrong_bit_of_a_header_is_noticed) {
  const auto right = encode_frame(some_header());
  for (size_t bit = 0; bit < 8 * right.size(); ++bit) {
    auto wrong = right;
    wrong[bit / 8] ^= static_cast<std::byte>(1u << (bit % 8));
    const auto fault = decode_frame(wrong).fault;
    const auto expected = bit < 32   ? FrameFault::foreign
                          : bit < 48 ? FrameFault::version
                                     : FrameFault::damaged;
    BOOST_REQUIRE(fault == expected);
  }
}

BOOST_AUTO_TEST_CASE(unknown_kinds_and_long_payloads_are_refused) {
  auto bytes = encode_frame(some_header());
  for (int kind : {0, 6, 63}) {
    bytes[6] = static_cast<std::byte>(kind);
    BOOST_CHECK(decodes_as(sealed(bytes), FrameFault::kind));
  }
  for (int kind : {1, 5, 64, 255}) {
    bytes[6] = static_cast<std::byte>(kind);
    BOOST_CHECK(decodes_as(sealed(bytes), FrameFault::none));
  }
  auto length = max_frame_payload_bytes;
  std::memcpy(&bytes[68], &length, 4);
  BOOST_CHECK(decodes_as(sealed(bytes), FrameFault::none));
  ++length;
  std::memcpy(&bytes[68], &length, 4);
  BOOST_CHECK(decodes_as(sealed(bytes), FrameFault::too_long));
}

BOOST_AUTO_TEST_CASE(every_fault_has_words) {
  for (auto fault :
       {FrameFault::foreign, FrameFault::version, FrameFault::damaged,
        FrameFault::kind, FrameFault::too_long, FrameFault::payload})
    BOOST_CHECK(to_string(fault) != to_string(FrameFault::none));
}

BOOST_AUTO_TEST_SUITE_END()
