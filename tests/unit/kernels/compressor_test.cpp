#include "kernels/base/error.hpp"
#include "kernels/cpu/isa.hpp"
#include "tests/unit/kernels/compressed.hpp"
#include "tests/unit/kernels/recorded_bits.hpp"

#include <boost/test/unit_test.hpp>

#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

using namespace troupe;
using namespace troupe::test;

BOOST_AUTO_TEST_SUITE(compressor_test)

namespace {

constexpr auto infinity = std::numeric_limits<float>::infinity();
constexpr auto not_a_number = std::numeric_limits<float>::quiet_NaN();

const Compression all[] = {
  {CompressionKind::float16, 0}, {CompressionKind::bfloat16, 0},
  {CompressionKind::int8, 0},    {CompressionKind::onebit, 0},
  {CompressionKind::topk, 0.03}, {CompressionKind::topk, 1},
};

const size_t counts[] = {1,   2,   7,   8,   15,  16,  17,   31,  255,
                         256, 257, 300, 511, 512, 513, 1000, 1543};

/// Puts the loops that were selected back.
struct SelectedLoops {
  kernels::Isa kept = kernels::selected_isa();
  ~SelectedLoops() { kernels::select_loops(kept); }
};

} // namespace

BOOST_AUTO_TEST_CASE(specifications_are_read_and_written) {
  for (const auto* text :
       {"none", "fp16", "bf16", "int8", "onebit", "topk:0.01", "topk:1"})
    BOOST_TEST(to_string(parse_compression(text)) == text);
  for (const auto* text : {"", "fp8", "topk", "topk:", "topk:0", "topk:1.5",
                           "topk:-1", "topk:x", "topk:0.1x", "topk:nan"})
    BOOST_CHECK_THROW(parse_compression(text), UsageError);
  BOOST_TEST(!make_compressor({}));
}

BOOST_AUTO_TEST_CASE(lengths_are_as_documented) {
  const auto bytes = [](const char* text, size_t count) {
    return make_compressor(parse_compression(text))->bytes(count);
  };
  BOOST_TEST(bytes("fp16", 100) == 200u);
  BOOST_TEST(bytes("bf16", 100) == 200u);
  BOOST_TEST(bytes("int8", 256) == 260u);
  BOOST_TEST(bytes("int8", 257) == 265u);
  BOOST_TEST(bytes("onebit", 512) == 72u);
  BOOST_TEST(bytes("onebit", 513) == 81u);
  BOOST_TEST(bytes("topk:0.01", 1001) == 88u);
  BOOST_TEST(bytes("topk:0.01", 1) == 8u);
  for (const auto& format : all)
    BOOST_TEST(make_compressor(format)->bytes(0) == 0u);
}

BOOST_AUTO_TEST_CASE(int8_follows_its_reference) {
  const auto values = random_values(600, 6);
  const auto bytes = compressed({CompressionKind::int8, 0}, values);
  const auto* at = bytes.data();
  for (size_t begin = 0; begin < 600; begin += 256) {
    const auto size = std::min<size_t>(256, 600 - begin);
    float largest = 0;
    for (size_t i = begin; i < begin + size; ++i)
      largest = std::max(largest, std::abs(values[i]));
    float scale = 0;
    std::memcpy(&scale, at, 4);
    BOOST_TEST(scale == largest / 127);
    for (size_t i = 0; i < size; ++i) {
      const auto code = static_cast<int8_t>(at[4 + i]);
      const auto exact = double{values[begin + i]} / scale;
      BOOST_REQUIRE(std::abs(code - exact) <= 0.5 + 1e-4);
    }
    at += 4 + size;
  }
}

BOOST_AUTO_TEST_CASE(onebit_sends_signs_and_the_means_of_both) {
  const std::vector<float> values{1, -2, 3, -0.0f, -4, 2, 0, 0, 6};
  const auto bytes = compressed({CompressionKind::onebit, 0}, values);
  float means[2];
  std::memcpy(means, bytes.data(), 8);
  BOOST_TEST(means[0] == -3.0f);
  BOOST_TEST(means[1] == 12.0f / 7);
  BOOST_TEST((bytes[8] == std::byte{0b11101101}));
  BOOST_TEST((bytes[9] == std::byte{1}));
}

BOOST_AUTO_TEST_CASE(topk_sends_the_largest_and_of_equal_ones_the_first) {
  const Compression format{CompressionKind::topk, 0.5};
  const std::vector<float> values{1, -3, 2, -2, 0, 2, 5};
  std::vector<float> residual(7, 0.0f);
  const auto bytes = compressed(format, values, &residual);
  BOOST_TEST(decompressed(format, bytes, 7)
             == (std::vector<float>{0, -3, 2, -2, 0, 0, 5}));
  BOOST_TEST(residual == (std::vector<float>{1, 0, 0, 0, 0, 2, 0}));
  // against a sort, with many ties
  std::mt19937 random(7);
  for (size_t count : counts) {
    std::vector<float> drawn(count);
    for (auto& value : drawn)
      value = static_cast<float>(static_cast<int>(random() % 9) - 4);
    std::vector<size_t> order(count);
    for (size_t i = 0; i < count; ++i)
      order[i] = i;
    std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
      return std::abs(drawn[a]) > std::abs(drawn[b]);
    });
    std::vector<float> want(count, 0.0f);
    for (size_t i = 0; i < (count + 1) / 2; ++i)
      want[order[i]] = drawn[order[i]];
    BOOST_TEST(decompressed(format, compressed(format, drawn), count) == want);
  }
}

BOOST_AUTO_TEST_CASE(what_is_sent_and_what_stays_add_up_to_the_values) {
  for (const auto& format : all)
    for (auto count : counts)
      BOOST_TEST_CONTEXT(to_string(format) << " of " << count) {
        const auto values = random_values(count, 8);
        std::vector<float> residual(count, 0.0f);
        const auto bytes = compressed(format, values, &residual);
        const auto sent = decompressed(format, bytes, count);
        for (size_t i = 0; i < count; ++i) {
          if (format.kind == CompressionKind::onebit) // the only one inexact
            BOOST_REQUIRE(std::abs(double{sent[i]} + residual[i] - values[i])
                          <= 1e-7 * (std::abs(sent[i]) + std::abs(values[i])));
          else
            BOOST_REQUIRE_EQUAL(sent[i] + residual[i], values[i]);
        }
        // without a residual the same is sent
        BOOST_TEST((compressed(format, values) == bytes));
      }
}

BOOST_AUTO_TEST_CASE(with_error_feedback_the_mean_of_what_arrives_converges) {
  const size_t count = 700;
  std::mt19937 random(9);
  std::normal_distribution<float> draw;
  std::vector<float> values(count);
  for (auto& value : values)
    value = draw(random);
  double largest = 0;
  for (auto value : values)
    largest = std::max(largest, double{std::abs(value)});
  for (const auto& format : all)
    BOOST_TEST_CONTEXT(to_string(format)) {
      std::vector<float> residual(count, 0.0f);
      std::vector<double> sums(count, 0.0);
      const auto worst_after = [&](int rounds, int before) {
        for (int round = before; round < rounds; ++round) {
          const auto bytes = compressed(format, values, &residual);
          const auto sent = decompressed(format, bytes, count);
          for (size_t i = 0; i < count; ++i)
            sums[i] += sent[i];
        }
        double worst = 0;
        for (size_t i = 0; i < count; ++i)
          worst = std::max(worst, std::abs(sums[i] / rounds - values[i]));
        return worst;
      };
      const auto early = worst_after(100, 0);
      const auto late = worst_after(10'000, 100);
      BOOST_TEST(late <= 0.02 * largest);
      BOOST_TEST(late <= early / 10 + 1e-4 * largest);
    }
}

BOOST_AUTO_TEST_CASE(place_and_instruction_set_do_not_change_the_bytes) {
  SelectedLoops restore;
  for (const auto& format : all)
    for (size_t count : {5, 257, 1543}) {
      auto values = random_values(count, 10);
      values[count / 2] = 1e6f; // beyond float16
      const auto start = random_values(count, 11);
      auto residual = start;
      const auto bytes = compressed(format, values, &residual);
      const auto sent = decompressed(format, bytes, count);
      record_bits_of(to_string(format), bytes, residual, sent);
      const auto compressor = make_compressor(format);
      for (auto isa : kernels::every_isa) {
        if (!kernels::has_isa(isa)) {
          BOOST_TEST_MESSAGE(kernels::name_of(isa) << " is not supported here");
          continue;
        }
        kernels::select_loops(isa);
        for (size_t offset = 0; offset < 16; ++offset) {
          std::vector<float> moved(offset, 0.0f);
          moved.insert(moved.end(), values.begin(), values.end());
          std::vector<float> rest(offset, 0.0f);
          rest.insert(rest.end(), start.begin(), start.end());
          CompressedBytes out(offset + bytes.size());
          compressor->compress(moved.data() + offset, rest.data() + offset,
                               count, out.data() + offset);
          BOOST_REQUIRE(
            std::equal(bytes.begin(), bytes.end(),
                       out.begin() + static_cast<ptrdiff_t>(offset)));
          rest.erase(rest.begin(),
                     rest.begin() + static_cast<ptrdiff_t>(offset));
          BOOST_REQUIRE(same_bits(rest, residual));
          compressor->decompress(std::span{out}.subspan(offset), count,
                                 moved.data() + offset);
          moved.erase(moved.begin(),
                      moved.begin() + static_cast<ptrdiff_t>(offset));
          BOOST_REQUIRE(same_bits(moved, sent));
        }
      }
    }
}

BOOST_AUTO_TEST_CASE(what_arrives_can_be_added) {
  for (const auto& format : all)
    for (auto count : counts) {
      const auto bytes = compressed(format, random_values(count, 12));
      const auto sent = decompressed(format, bytes, count);
      auto sums = random_values(count, 13);
      auto want = sums;
      for (size_t i = 0; i < count; ++i)
        want[i] += sent[i];
      make_compressor(format)->add(bytes, count, sums.data());
      BOOST_TEST(same_bits(sums, want));
    }
}

BOOST_AUTO_TEST_CASE(values_that_are_not_finite_arrive_and_do_not_stay) {
  SelectedLoops restore;
  for (const auto& format : all)
    for (float bad : {infinity, -infinity, not_a_number, -not_a_number})
      BOOST_TEST_CONTEXT(to_string(format) << " of " << bad) {
        auto values = random_values(600, 14);
        values[300] = bad;
        CompressedBytes first;
        for (auto isa : kernels::every_isa) {
          if (!kernels::has_isa(isa))
            continue;
          kernels::select_loops(isa);
          std::vector<float> residual(600, 0.0f);
          const auto bytes = compressed(format, values, &residual);
          const auto sent = decompressed(format, bytes, 600);
          BOOST_TEST(!std::isfinite(sent[300]));
          for (auto value : residual)
            BOOST_REQUIRE(std::isfinite(value));
          if (first.empty())
            first = bytes;
          BOOST_TEST((bytes == first));
        }
      }
}

BOOST_AUTO_TEST_CASE(blocks_of_zeros_and_of_tiny_values_are_zero) {
  const std::vector<float> tiny(300, 1e-44f);
  std::vector<float> residual(300, 0.0f);
  const Compression format{CompressionKind::int8, 0};
  const auto bytes = compressed(format, tiny, &residual);
  BOOST_TEST(decompressed(format, bytes, 300) == std::vector<float>(300, 0.0f));
  BOOST_TEST(residual == tiny);
  for (const auto& any : all) {
    const std::vector<float> zeros(300, 0.0f);
    BOOST_TEST(decompressed(any, compressed(any, zeros), 300) == zeros);
  }
}

/// Expects a refusal that says `part`, and values left as they were.
void check_refused(const Compression& format, const CompressedBytes& bytes,
                   size_t count, const std::string& part) {
  const std::vector<float> before(count, 7.0f);
  auto out = before;
  const auto compressor = make_compressor(format);
  const auto says = [&](const InputError& error) {
    return std::string(error.what()).find(part) != std::string::npos;
  };
  BOOST_CHECK_EXCEPTION(compressor->decompress(bytes, count, out.data()),
                        InputError, says);
  BOOST_CHECK_EXCEPTION(compressor->add(bytes, count, out.data()), InputError,
                        says);
  BOOST_TEST(out == before);
}

BOOST_AUTO_TEST_CASE(bytes_that_nobody_wrote_are_refused) {
  for (const auto& format : all) {
    auto bytes = compressed(format, random_values(20, 15));
    bytes.pop_back();
    check_refused(format, bytes, 20, "bytes for 20 values");
    bytes.resize(bytes.size() + 2);
    check_refused(format, bytes, 20, "bytes for 20 values");
  }
  const Compression int8{CompressionKind::int8, 0};
  auto bytes = compressed(int8, random_values(20, 15));
  auto bad = bytes;
  bad[3] |= std::byte{0x80};
  check_refused(int8, bad, 20, "scale");
  bad = bytes;
  bad[23] = std::byte{0x80};
  check_refused(int8, bad, 20, "-128");
  const Compression onebit{CompressionKind::onebit, 0};
  bytes = compressed(onebit, random_values(20, 15));
  bad = bytes;
  bad[3] ^= std::byte{0x80};
  check_refused(onebit, bad, 20, "sign");
  bad = bytes;
  bad[10] |= std::byte{0x10};
  check_refused(onebit, bad, 20, "beyond");
  const Compression topk{CompressionKind::topk, 0.2};
  bytes = compressed(topk, random_values(20, 15));
  bad = bytes;
  std::swap(bad[0], bad[4]);
  check_refused(topk, bad, 20, "ascend");
  bad = bytes;
  bad[12] = std::byte{20};
  check_refused(topk, bad, 20, "beyond");
}

BOOST_AUTO_TEST_CASE(any_bytes_are_refused_or_decoded_within_bounds) {
  std::mt19937 random(16);
  size_t refused = 0;
  size_t taken = 0;
  for (int round = 0; round < 3000; ++round)
    for (const auto& format : all) {
      const auto count = counts[random() % std::size(counts)];
      CompressedBytes bytes = compressed(format,
                                         random_values(count, random()));
      if (round % 3 == 0) // anything
        for (auto& byte : bytes)
          byte = static_cast<std::byte>(random());
      else // a few changes
        for (int i = 0; i < 3; ++i)
          bytes[random() % bytes.size()] ^= static_cast<std::byte>(random());
      if (round % 7 == 0)
        bytes.resize(random() % (2 * bytes.size()));
      // exact, so that a sanitizer sees every access beyond
      const CompressedBytes exact(bytes.begin(), bytes.end());
      std::vector<float> out(count, 7.0f);
      try {
        make_compressor(format)->decompress(exact, count, out.data());
        ++taken;
      } catch (const InputError&) {
        ++refused;
        BOOST_REQUIRE(out == std::vector<float>(count, 7.0f));
      }
    }
  BOOST_TEST(refused > 1000u);
  BOOST_TEST(taken > 1000u);
}

BOOST_AUTO_TEST_SUITE_END()
