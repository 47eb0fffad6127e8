#include "kernels/files/number_line.hpp"

#include "kernels/base/intrinsics.hpp"
#include "kernels/files/powers_of_ten.hpp"
#include "kernels/files/text_lines.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

namespace troupe {

#if defined(__x86_64__)

namespace {

constexpr size_t lanes = 16;
/// Characters before a line, which may be loaded with those of a number.
constexpr size_t room_before = 2 * lanes;
/// Characters that are looked at for separators at once, also behind a line.
constexpr size_t step = 64;
/// Ends that are written at once, wanted or not.
constexpr size_t ends_at_once = 8;

/// From byte lanes - i on: the first i lanes.
constexpr auto first_lanes = [] {
  std::array<uint8_t, 2 * lanes> bytes{};
  for (size_t i = 0; i < lanes; ++i)
    bytes[i] = 0xff;
  return bytes;
}();

/// What to divide by, where so many digits follow the point; at `lanes` there
/// is none.
constexpr auto divisors = [] {
  std::array<double, lanes + 1> result{};
  std::ranges::copy(powers_of_ten, result.begin());
  result[lanes] = 1;
  return result;
}();

__m128i load(const void* at) {
  return _mm_loadu_si128(static_cast<const __m128i*>(at));
}

/// The last characters before `end`, the last one in lane 0.
__m128i load_back(const char* end) {
  return _mm_shuffle_epi8(load(end - lanes),
                          _mm_set_epi8(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12,
                                       13, 14, 15));
}

__m128i first(size_t count) {
  return load(first_lanes.data() + (lanes - count));
}

/// The bits of lanes that are `wanted`.
uint32_t lanes_of(__m128i text, __m128i wanted) {
  return static_cast<uint32_t>(_mm_movemask_epi8(_mm_cmpeq_epi8(text, wanted)));
}

/// The number in [begin, end), where it has at most 15 digits and no exponent;
/// else false.
bool take_short(const char* begin, const char* end, double& value) {
  // Without branches, since nobody can guess signs.
  const auto negative = static_cast<uint64_t>(*begin == '-');
  begin += negative | static_cast<uint64_t>(*begin == '+');
  const auto size = static_cast<size_t>(end - begin);
  if (size - 1 >= lanes) // 0 is not less, either
    return false;
  const auto text = load_back(end);
  const auto points = lanes_of(text, _mm_set1_epi8('.')) & ((1u << size) - 1);
  const auto behind =
    static_cast<size_t>(std::countr_zero(points | 1u << lanes));
  const auto count = size - (points != 0 ? 1 : 0);
  if (count - 1 >= lanes - 1)
    return false;
  // What stands before the point moves up to what stands behind it.
  const auto joined = _mm_blendv_epi8(load_back(end - 1), text, first(behind));
  const auto digits = _mm_and_si128(_mm_sub_epi8(joined, _mm_set1_epi8('0')),
                                    first(count));
  const auto above = _mm_subs_epu8(digits, _mm_set1_epi8(9));
  if (_mm_testz_si128(above, above) == 0)
    return false;
  const auto twos = _mm_maddubs_epi16(digits, _mm_set1_epi16(1 | 10 << 8));
  const auto fours = _mm_madd_epi16(twos, _mm_set1_epi32(1 | 100 << 16));
  const auto eights = _mm_madd_epi16(_mm_packus_epi32(fours, fours),
                                     _mm_set1_epi32(1 | 10'000 << 16));
  const auto both = static_cast<uint64_t>(_mm_cvtsi128_si64(eights));
  const auto all =
    static_cast<int64_t>((both >> 32) * 100'000'000 + (both & 0xffff'ffff));
  // Both are exact in double, so their quotient is the number rounded once.
  // Source: Clinger, "How to read floating point numbers accurately", 1990.
  const auto real = static_cast<double>(all) / divisors[behind];
  value = std::bit_cast<double>(std::bit_cast<uint64_t>(real) | negative << 63);
  return true;
}

} // namespace

/// Copies the line to where there is room around it; false where it has not as
/// many fields.
bool NumberLine::find_ends(std::string_view line, size_t fields) {
  text_.resize(std::max(text_.size(), room_before + line.size() + step));
  ends_.resize(std::max(ends_.size(), fields + step));
  auto* text = text_.data() + room_before;
  std::ranges::copy(line, text);
  const auto separator = _mm_set1_epi8(separator_);
  auto* ends = ends_.data();
  size_t found = 0;
  for (size_t at = 0; at < line.size(); at += step) {
    uint64_t bits = 0;
    for (size_t i = 0; i < step; i += lanes)
      bits |= uint64_t{lanes_of(load(text + at + i), separator)} << i;
    if (const auto left = line.size() - at; left < step)
      bits &= (uint64_t{1} << left) - 1;
    const auto more = static_cast<size_t>(std::popcount(bits));
    if (found + more >= fields)
      return false;
    for (size_t i = 0; i < more; i += ends_at_once)
      for (size_t k = 0; k < ends_at_once; ++k, bits &= bits - 1)
        ends[found + i + k] = static_cast<uint32_t>(
          at + static_cast<size_t>(std::countr_zero(bits | uint64_t{1} << 63)));
    found += more;
  }
  ends[found++] = static_cast<uint32_t>(line.size());
  return found == fields;
}

bool NumberLine::take(std::string_view line, std::span<double> values) {
  if (!find_ends(line, values.size()))
    return false;
  const auto* text = text_.data() + room_before;
  const auto* begin = text;
  for (size_t i = 0; i < values.size(); ++i) {
    const auto* end = text + ends_.data()[i];
    if (!take_short(begin, end, values.data()[i])) {
      const auto value = parse_real({begin, end});
      if (!value)
        return false;
      values[i] = *value;
    }
    begin = end + 1;
  }
  return true;
}

#else

bool NumberLine::take(std::string_view line, std::span<double> values) {
  const auto* at = line.data();
  const auto* last = at + line.size();
  for (size_t i = 0; i < values.size(); ++i)
    if ((i > 0 && (at == last || *at++ != separator_))
        || !take_real(at, last, values[i]))
      return false;
  return at == last;
}

#endif

} // namespace troupe
