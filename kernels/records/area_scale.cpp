#include "kernels/records/area_scale.hpp"

#include <algorithm>
#include <cstring>
#include <vector>

namespace troupe {

namespace {

/// The part of one extent that is taken.
struct Cut {
  uint32_t first;
  uint32_t count;
};

/// Of an image whose extents are a x b, what has the shape of c x d: where it
/// is too long along a.
Cut middle(uint64_t a, uint64_t b, uint64_t c, uint64_t d) {
  // a' / b = c / d, and at least one pixel.
  const auto fitting = std::max<uint64_t>(1, (2 * b * c + d) / (2 * d));
  const auto count = static_cast<uint32_t>(std::min(a, fitting));
  return {static_cast<uint32_t>((a - count) / 2), count};
}

/// Calls visit(i, weight) for the pixels i of a cut that pixel `o` of `wanted`
/// covers; the weights' sum is cut.count.
template <class Visit>
void covered(uint64_t o, uint64_t wanted, const Cut& cut, Visit visit) {
  // In units of 1 / (count wanted) of the cut, pixels of it are `wanted` wide
  // and those of the result `count`.
  const auto begin = o * cut.count;
  const auto end = begin + cut.count;
  for (auto i = begin / wanted; i * wanted < end; ++i) {
    const auto from = std::max(begin, i * wanted);
    const auto to = std::min(end, (i + 1) * wanted);
    visit(cut.first + i, to - from);
  }
}

/// Sums of one row: out[x, c] = sum of weight * pixel.
template <unsigned channels>
void sum_row(const uint8_t* row, const Cut& cut, uint32_t width,
             uint64_t* out) {
  for (uint32_t x = 0; x < width; ++x, out += channels) {
    uint64_t sums[channels] = {};
    covered(x, width, cut, [&](uint64_t i, uint64_t weight) {
      for (unsigned c = 0; c < channels; ++c)
        sums[c] += weight * row[i * channels + c];
    });
    for (unsigned c = 0; c < channels; ++c)
      out[c] = sums[c];
  }
}

} // namespace

void scale_area(const uint8_t* in, const PixelGrid& from, uint8_t* out,
                const PixelGrid& to) {
  const auto rows = middle(from.height, from.width, to.height, to.width);
  const auto columns = middle(from.width, from.height, to.width, to.height);
  const size_t stride = size_t{from.width} * from.channels;
  const size_t values = size_t{to.width} * to.channels;
  if (rows.count == to.height && columns.count == to.width) {
    for (uint32_t y = 0; y < to.height; ++y)
      std::memcpy(out + y * values,
                  in + (rows.first + y) * stride
                    + size_t{columns.first} * from.channels,
                  values);
    return;
  }
  std::vector<uint64_t> sums(values); // of one row of the image
  std::vector<uint64_t> all(values);
  const uint64_t area = uint64_t{rows.count} * columns.count;
  uint64_t summed = ~uint64_t{0}; // the row that `sums` is of
  for (uint32_t y = 0; y < to.height; ++y) {
    std::fill(all.begin(), all.end(), 0);
    covered(y, to.height, rows, [&](uint64_t i, uint64_t weight) {
      if (i != summed) {
        const auto* row = in + i * stride;
        if (from.channels == 3)
          sum_row<3>(row, columns, to.width, sums.data());
        else
          sum_row<1>(row, columns, to.width, sums.data());
        summed = i;
      }
      for (size_t k = 0; k < values; ++k)
        all[k] += weight * sums[k];
    });
    for (size_t k = 0; k < values; ++k)
      out[y * values + k] = static_cast<uint8_t>((all[k] + area / 2) / area);
  }
}

} // namespace troupe
