#include "kernels/base/crc32c.hpp"

#include "kernels/base/intrinsics.hpp"

#if defined(__aarch64__)
#  include <sys/auxv.h>
#endif

#include <array>
#include <bit>
#include <cstring>

namespace troupe {

namespace {

// Bit 31 - i is the coefficient of x^i, x^32 left out (RFC 3720, appendix B.4).
constexpr uint32_t polynomial = 0x82f63b78;

/// x^n modulo the polynomial.
constexpr uint32_t power_of_x(uint32_t n) {
  uint32_t value = 0x80000000;
  for (uint32_t i = 0; i < n; ++i)
    value = (value >> 1) ^ (value & 1 ? polynomial : 0);
  return value;
}

// A carry-less product of reflected numbers has its powers one too high, and a
// factor of 32 bits stands for itself times x^32 in a 64-bit register. Hence
// the constants below: multiplied by fold_low(d), the half of a 128-bit block
// with the higher powers moves d bits on; by fold_high(d) the other.
// Source: Gopal et al., Fast CRC Computation Using PCLMULQDQ, 2009.
constexpr uint64_t fold_low(uint32_t bits) {
  return power_of_x(bits + 31);
}
constexpr uint64_t fold_high(uint32_t bits) {
  return power_of_x(bits - 33);
}

template <class T>
T load(const uint8_t* at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

/// Eight tables: table[k][b] is the CRC of byte b and k zeros.
using Tables = std::array<std::array<uint32_t, 256>, 8>;

constexpr Tables make_tables() {
  Tables tables{};
  for (uint32_t b = 0; b < 256; ++b) {
    uint32_t crc = b;
    for (int i = 0; i < 8; ++i)
      crc = (crc >> 1) ^ (crc & 1 ? polynomial : 0);
    tables[0][b] = crc;
  }
  for (size_t k = 1; k < tables.size(); ++k)
    for (uint32_t b = 0; b < 256; ++b)
      tables[k][b] = (tables[k - 1][b] >> 8)
                     ^ tables[0][tables[k - 1][b] & 0xff];
  return tables;
}

constexpr Tables tables = make_tables();
static_assert(std::endian::native == std::endian::little);

uint32_t by_table(uint32_t crc, const void* bytes, size_t size) {
  const auto* at = static_cast<const uint8_t*>(bytes);
  crc = ~crc;
  for (; size >= 8; size -= 8, at += 8) {
    const auto word = load<uint64_t>(at) ^ crc;
    crc = 0;
    for (size_t k = 0; k < 8; ++k)
      crc ^= tables[7 - k][(word >> (8 * k)) & 0xff];
  }
  for (; size > 0; --size)
    crc = (crc >> 8) ^ tables[0][(crc ^ *at++) & 0xff];
  return ~crc;
}

#if defined(__x86_64__)

__attribute__((target("sse4.2"))) uint32_t tail(uint32_t crc, const uint8_t* at,
                                                size_t size) {
  uint64_t wide = crc;
  for (; size >= 8; size -= 8, at += 8)
    wide = _mm_crc32_u64(wide, load<uint64_t>(at));
  crc = static_cast<uint32_t>(wide);
  for (; size > 0; --size)
    crc = _mm_crc32_u8(crc, *at++);
  return crc;
}

/// The CRC of what `crc` is that of, followed by zeros; factor:
/// power_of_x(8 zeros - 33).
__attribute__((target("sse4.2,pclmul"))) uint32_t shifted(uint32_t crc,
                                                          uint32_t factor) {
  const auto product =
    _mm_clmulepi64_si128(_mm_cvtsi32_si128(static_cast<int>(crc)),
                         _mm_cvtsi32_si128(static_cast<int>(factor)), 0);
  return static_cast<uint32_t>(
    _mm_crc32_u64(0, static_cast<uint64_t>(_mm_cvtsi128_si64(product))));
}

/// Takes blocks of three streams: the instruction takes three cycles, and one
/// can begin in each.
template <size_t Stream>
__attribute__((target("sse4.2,pclmul"))) uint32_t
three_streams(uint32_t crc, const uint8_t*& at, size_t& size) {
  constexpr uint32_t bits = 8 * Stream;
  constexpr uint32_t once = power_of_x(bits - 33);
  constexpr uint32_t twice = power_of_x(2 * bits - 33);
  for (; size >= 3 * Stream; size -= 3 * Stream, at += 3 * Stream) {
    uint64_t a = crc;
    uint64_t b = 0;
    uint64_t c = 0;
    for (size_t i = 0; i < Stream; i += 8) {
      a = _mm_crc32_u64(a, load<uint64_t>(at + i));
      b = _mm_crc32_u64(b, load<uint64_t>(at + Stream + i));
      c = _mm_crc32_u64(c, load<uint64_t>(at + 2 * Stream + i));
    }
    crc = shifted(static_cast<uint32_t>(a), twice)
          ^ shifted(static_cast<uint32_t>(b), once) ^ static_cast<uint32_t>(c);
  }
  return crc;
}

__attribute__((target("sse4.2,pclmul"))) uint32_t
by_instruction(uint32_t crc, const void* bytes, size_t size) {
  const auto* at = static_cast<const uint8_t*>(bytes);
  crc = three_streams<1024>(~crc, at, size);
  crc = three_streams<128>(crc, at, size);
  return ~tail(crc, at, size);
}

#  define WIDE __attribute__((target("sse4.2,pclmul,avx512f,vpclmulqdq")))

/// `sum` moved on by as many bits as `factors` are made for, and `more` added.
WIDE inline __m512i folded(__m512i sum, __m512i factors, __m512i more) {
  return _mm512_ternarylogic_epi64(_mm512_clmulepi64_epi128(sum, factors, 0x00),
                                   _mm512_clmulepi64_epi128(sum, factors, 0x11),
                                   more, 0x96);
}

WIDE inline __m512i factors_of(uint32_t bits) {
  const auto low = static_cast<long long>(fold_low(bits));
  const auto high = static_cast<long long>(fold_high(bits));
  return _mm512_set_epi64(high, low, high, low, high, low, high, low);
}

/// Four runs of 64 bytes at a time, of which a sum is kept each.
struct Folding {
  WIDE static __m512i far() {
    static const __m512i factors = factors_of(4 * 512); // they take long: once
    return factors;
  }
  WIDE static __m512i near() {
    static const __m512i factors = factors_of(512);
    return factors;
  }

  /// With the CRC of what was before, not inverted.
  WIDE inline void begin(uint32_t crc, const uint8_t* at) {
#  pragma GCC unroll 4
    for (size_t k = 0; k < 4; ++k)
      sum[k] = _mm512_loadu_si512(at + 64 * k);
    sum[0] = _mm512_xor_si512(
      sum[0], _mm512_zextsi128_si512(_mm_cvtsi32_si128(static_cast<int>(crc))));
  }
  WIDE inline void add(__m512i factors, const uint8_t* at) {
#  pragma GCC unroll 4 // or they live in memory
    for (size_t k = 0; k < 4; ++k)
      sum[k] = folded(sum[k], factors, _mm512_loadu_si512(at + 64 * k));
  }
  /// And up to three runs more.
  WIDE inline uint32_t end(const uint8_t*& at, size_t& size) {
    auto all = sum[0];
#  pragma GCC unroll 4
    for (size_t k = 1; k < 4; ++k)
      all = folded(all, near(), sum[k]);
    for (; size >= 64; size -= 64, at += 64)
      all = folded(all, near(), _mm512_loadu_si512(at));
    // What is left is 64 bytes whose CRC is that of all so far.
    alignas(64) uint8_t rest[64];
    _mm512_store_si512(rest, all);
    return tail(0, rest, sizeof rest);
  }

  __m512i sum[4];
};

WIDE uint32_t by_folding(uint32_t crc, const void* bytes, size_t size) {
  if (size < 512)
    return by_instruction(crc, bytes, size);
  const auto* at = static_cast<const uint8_t*>(bytes);
  const auto far = Folding::far();
  Folding folding;
  folding.begin(~crc, at);
  for (at += 256, size -= 256; size >= 256; size -= 256, at += 256)
    folding.add(far, at);
  crc = folding.end(at, size);
  return ~tail(crc, at, size);
}

/// Folds two thirds of a block while the instruction takes the rest in four
/// streams: they are different units of the processor.
WIDE uint32_t by_both(uint32_t crc, const void* bytes, size_t size) {
  constexpr size_t rounds = 128;
  constexpr size_t stream = 32 * rounds;
  constexpr size_t fold = 256 * (rounds + 1);
  constexpr size_t block = fold + 4 * stream;
  constexpr uint32_t bits = 8 * stream;
  constexpr uint32_t after[] = {power_of_x(bits - 33),
                                power_of_x(2 * bits - 33),
                                power_of_x(3 * bits - 33),
                                power_of_x(4 * bits - 33)};
  const auto* at = static_cast<const uint8_t*>(bytes);
  const auto far = Folding::far();
  for (; size >= block; size -= block) {
    Folding folding;
    folding.begin(~crc, at);
    const auto* streams = at + fold;
    uint64_t a = 0;
    uint64_t b = 0;
    uint64_t c = 0;
    uint64_t d = 0;
    for (size_t i = 0; i < rounds; ++i) {
      folding.add(far, at + 256 * (i + 1));
      // So many runs are too many for the processor to foresee the next block.
      for (size_t k = 0; k < 384; k += 64)
        _mm_prefetch(reinterpret_cast<const char*>(at + block + 384 * i + k),
                     _MM_HINT_T1);
#  pragma GCC unroll 4
      for (size_t k = 32 * i; k < 32 * (i + 1); k += 8) {
        a = _mm_crc32_u64(a, load<uint64_t>(streams + k));
        b = _mm_crc32_u64(b, load<uint64_t>(streams + stream + k));
        c = _mm_crc32_u64(c, load<uint64_t>(streams + 2 * stream + k));
        d = _mm_crc32_u64(d, load<uint64_t>(streams + 3 * stream + k));
      }
    }
    size_t none = 0;
    const auto folded = folding.end(at, none);
    crc = ~(
      shifted(folded, after[3]) ^ shifted(static_cast<uint32_t>(a), after[2])
      ^ shifted(static_cast<uint32_t>(b), after[1])
      ^ shifted(static_cast<uint32_t>(c), after[0]) ^ static_cast<uint32_t>(d));
    at = streams + 4 * stream;
  }
  return by_folding(crc, at, size);
}

#else

__attribute__((target("+crc"))) uint32_t
by_instruction(uint32_t crc, const void* bytes, size_t size) {
  const auto* at = static_cast<const uint8_t*>(bytes);
  crc = ~crc;
  for (; size >= 8; size -= 8, at += 8)
    crc = __crc32cd(crc, load<uint64_t>(at));
  for (; size > 0; --size)
    crc = __crc32cb(crc, *at++);
  return ~crc;
}

#endif

} // namespace

namespace kernels {

std::vector<Crc32cWay> crc32c_ways() {
  std::vector<Crc32cWay> ways{{"table", by_table}};
#if defined(__x86_64__)
  if (!__builtin_cpu_supports("sse4.2") || !__builtin_cpu_supports("pclmul"))
    return ways;
  ways.push_back({"three streams of crc32", by_instruction});
  if (__builtin_cpu_supports("avx512f")
      && __builtin_cpu_supports("vpclmulqdq")) {
    ways.push_back({"folding by vpclmulqdq", by_folding});
    ways.push_back({"folding beside four streams", by_both});
  }
#else
  if ((getauxval(AT_HWCAP) & HWCAP_CRC32) != 0)
    ways.push_back({"crc32c", by_instruction});
#endif
  return ways;
}

} // namespace kernels

uint32_t crc32c(uint32_t crc, const void* bytes, size_t size) {
  static const auto best = kernels::crc32c_ways().back().compute;
  return best(crc, bytes, size);
}

} // namespace troupe
