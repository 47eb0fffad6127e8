#include "kernels/records/triangle_scale.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

namespace troupe {

namespace {

// Down a column values get eight more bits, of which each tap may lose one;
// along a row there is room for a weight of 14 beside those 16.
constexpr uint32_t unit_down = 65'535;
constexpr uint32_t unit_across = 1 << 14;

/// Which pixels along one extent make each pixel of the result, and how much.
struct Taps {
  uint32_t most = 0;             ///< of any pixel
  std::vector<uint32_t> first;   ///< [extent], none smaller than the one before
  std::vector<uint32_t> counts;  ///< [extent]
  std::vector<uint16_t> weights; ///< [extent, most]; the sum of each is a unit

  const uint16_t* of(uint32_t i) const {
    return weights.data() + size_t{i} * most;
  }
  uint32_t end() const { return first.back() + counts.back(); }
};

Taps taps_of(uint32_t pixels, double begin, double length, uint32_t extent,
             uint32_t unit) {
  const auto scale = length / extent;
  const auto reach = std::max(1.0, scale);
  const auto edge = std::min(static_cast<uint32_t>(std::max(0.0, begin)),
                             pixels - 1);
  const auto end = std::clamp(static_cast<uint32_t>(std::ceil(begin + length)),
                              edge + 1, pixels);
  Taps taps;
  taps.most = static_cast<uint32_t>(std::ceil(reach)) * 2 + 1;
  taps.first.resize(extent);
  taps.counts.resize(extent);
  taps.weights.resize(size_t{extent} * taps.most);
  std::vector<double> shares(taps.most);
  for (uint32_t i = 0; i < extent; ++i) {
    const auto centre = begin + (i + 0.5) * scale;
    auto first = std::clamp(
      static_cast<uint32_t>(std::max(0.0, std::floor(centre - reach))), edge,
      end - 1);
    double sum = 0;
    uint32_t count = 0;
    for (; count < taps.most && first + count < end; ++count) {
      const auto distance = std::fabs(first + count + 0.5 - centre) / reach;
      shares[count] = distance < 1 ? 1 - distance : 0;
      sum += shares[count];
    }
    while (count > 1 && shares[count - 1] == 0)
      --count;
    auto* weights = taps.weights.data() + size_t{i} * taps.most;
    auto left = static_cast<int64_t>(unit);
    uint32_t largest = 0;
    for (uint32_t k = 0; k < count; ++k) {
      const auto share = sum > 0 ? shares[k] / sum : (k == 0 ? 1.0 : 0.0);
      weights[k] = static_cast<uint16_t>(std::floor(share * unit + 0.5));
      left -= weights[k];
      largest = weights[k] > weights[largest] ? k : largest;
    }
    weights[largest] = static_cast<uint16_t>(weights[largest] + left);
    taps.first[i] = first;
    taps.counts[i] = count;
  }
  return taps;
}

/// sums = weights * rows, or added to what they were, in 1/256 of a value: each
/// product is cut to that, so it does not matter how many rows come at once.
template <size_t count, bool first>
void add_rows(const uint8_t* rows, size_t stride, const uint16_t* weights,
              size_t values, uint16_t* __restrict sums) {
  uint16_t own[count];
  std::copy_n(weights, count, own);
  for (size_t k = 0; k < values; ++k) {
    auto sum = static_cast<uint16_t>(first ? 0 : sums[k]);
    for (size_t i = 0; i < count; ++i) {
      const auto wide = static_cast<uint16_t>(rows[i * stride + k] << 8);
      sum = static_cast<uint16_t>(sum + (uint32_t{wide} * own[i] >> 16));
    }
    sums[k] = sum;
  }
}

/// All rows of a pixel of the result.
void sum_rows(const uint8_t* rows, size_t stride, const uint16_t* weights,
              uint32_t count, size_t values, uint16_t* sums) {
  constexpr uint32_t most = 4;
  switch (std::min(count, most)) {
    case 1:
      add_rows<1, true>(rows, stride, weights, values, sums);
      break;
    case 2:
      add_rows<2, true>(rows, stride, weights, values, sums);
      break;
    case 3:
      add_rows<3, true>(rows, stride, weights, values, sums);
      break;
    default:
      add_rows<most, true>(rows, stride, weights, values, sums);
  }
  for (auto i = most; i < count; ++i)
    add_rows<1, false>(rows + i * stride, stride, weights + i, values, sums);
}

/// One row of the result from values in 1/256.
void row_of_grey(const uint16_t* row, const Taps& across, uint32_t width,
                 bool mirror, uint8_t* out) {
  for (uint32_t x = 0; x < width; ++x) {
    const auto* weights = across.of(x);
    const auto* from = row + (across.first[x] - across.first[0]);
    uint32_t sum = 1u << 21;
    for (uint32_t k = 0; k < across.counts[x]; ++k)
      sum += weights[k] * from[k];
    out[mirror ? width - 1 - x : x] = static_cast<uint8_t>(sum >> 22);
  }
}

using Sixteen8 = uint8_t __attribute__((vector_size(16)));
using Eight16 = uint16_t __attribute__((vector_size(16)));
using Four32 = uint32_t __attribute__((vector_size(16)));

// Lanes of little-endian machines; what __builtin_convertvector makes of so few
// takes several times as long.
Four32 widened(Eight16 low) {
  const Eight16 zero{};
  return reinterpret_cast<Four32>(
    __builtin_shufflevector(low, zero, 0, 8, 1, 9, 2, 10, 3, 11));
}
Sixteen8 lowest_bytes(Four32 values) {
  const auto all = reinterpret_cast<Sixteen8>(values);
  return __builtin_shufflevector(all, all, 0, 4, 8, 12, 0, 4, 8, 12, 0, 4, 8,
                                 12, 0, 4, 8, 12);
}

/// All pixels have `count` taps, some of weight 0: a loop whose length changes
/// from pixel to pixel costs more than those. `weights`: four times each, as a
/// pixel has values.
template <uint32_t count>
void row_of_colours(const uint16_t* row, const Taps& across,
                    const Four32* weights, uint32_t width, bool mirror,
                    uint8_t* out) {
  constexpr uint32_t half = 1u << 21;
  const auto* first = across.first.data();
  const auto left = first[0];
  for (uint32_t i = 0; i < width; ++i, out += 3) {
    const auto x = mirror ? width - 1 - i : i;
    const auto* own = weights + size_t{x} * count;
    const auto* from = row + size_t{first[x] - left} * 4;
    Four32 sums{half, half, half, half};
    for (uint32_t k = 0; k < count; ++k) {
      Eight16 pixel{};
      std::memcpy(&pixel, from + size_t{k} * 4, 4 * sizeof(uint16_t));
      sums += widened(pixel) * own[k];
    }
    const auto bytes = lowest_bytes(sums >> 22);
    // The fourth byte is the next pixel's first, which comes after it.
    std::memcpy(out, &bytes, i + 1 < width ? 4 : 3);
  }
}

using RowOfColours = void (*)(const uint16_t*, const Taps&, const Four32*,
                              uint32_t, bool, uint8_t*);

RowOfColours for_taps(uint32_t count) {
  switch (count) {
    case 1:
      return row_of_colours<1>;
    case 2:
      return row_of_colours<2>;
    case 3:
      return row_of_colours<3>;
    case 4:
      return row_of_colours<4>;
    case 5:
      return row_of_colours<5>;
    default:
      return nullptr;
  }
}

/// The same of any number of taps.
void row_of_many(const uint16_t* row, const Taps& across, uint32_t width,
                 bool mirror, uint8_t* out) {
  for (uint32_t x = 0; x < width; ++x) {
    const auto* weights = across.of(x);
    const auto* from = row + size_t{across.first[x] - across.first[0]} * 4;
    auto* to = out + size_t{mirror ? width - 1 - x : x} * 3;
    for (size_t c = 0; c < 3; ++c) {
      uint32_t sum = 1u << 21;
      for (uint32_t k = 0; k < across.counts[x]; ++k)
        sum += weights[k] * from[size_t{k} * 4 + c];
      to[c] = static_cast<uint8_t>(sum >> 22);
    }
  }
}

} // namespace

void scale_part(const uint8_t* in, const PixelGrid& from, const ImagePart& part,
                bool mirror, uint8_t* out, const PixelGrid& to) {
  const auto across = taps_of(from.width, part.left, part.width, to.width,
                              unit_across);
  const auto down = taps_of(from.height, part.top, part.height, to.height,
                            unit_down);
  const auto left = across.first[0];
  const size_t values = size_t{across.end() - left} * from.channels;
  const size_t stride = size_t{from.width} * from.channels;
  // Taps of weight 0 may lie behind the end.
  const auto most = *std::max_element(across.counts.begin(),
                                      across.counts.end());
  std::vector<uint16_t> sums(values + size_t{most} * 4);
  const auto fast = from.channels == 4 ? for_taps(most) : nullptr;
  std::vector<Four32> weights(fast != nullptr ? size_t{to.width} * most : 0);
  for (size_t i = 0; i < weights.size(); ++i)
    weights[i] = Four32{}
                 + across.of(static_cast<uint32_t>(i / most))[i % most];
  for (uint32_t y = 0; y < to.height; ++y) {
    sum_rows(in + down.first[y] * stride + size_t{left} * from.channels, stride,
             down.of(y), down.counts[y], values, sums.data());
    auto* row = out + size_t{y} * to.width * to.channels;
    if (fast != nullptr)
      fast(sums.data(), across, weights.data(), to.width, mirror, row);
    else if (from.channels == 4)
      row_of_many(sums.data(), across, to.width, mirror, row);
    else
      row_of_grey(sums.data(), across, to.width, mirror, row);
  }
}

} // namespace troupe
