#include "kernels/base/require.hpp"
#include "kernels/compression/formats.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <vector>

namespace troupe::kernels {

namespace {

/// Orders by size as an integer, infinities and then NaN last.
uint32_t size_bits(float value) {
  return std::bit_cast<uint32_t>(value) & 0x7fffffff;
}

/// The k-th largest size, and how many of that very size belong to the k.
struct Threshold {
  uint32_t bits = 0;
  size_t ties = 0;
};

/// A digit of the sizes: `bits` of them from `shift` on.
struct Digit {
  uint32_t shift;
  uint32_t bits;

  uint32_t of(uint32_t size) const {
    return size >> shift & ((1u << bits) - 1);
  }
};

/// Finds the digit that the threshold has, given how often each occurs; counts
/// down the ties by those above.
uint32_t take_digit(const std::vector<uint32_t>& counts, Threshold& threshold,
                    Digit digit) {
  auto found = static_cast<uint32_t>(counts.size() - 1);
  for (; counts[found] < threshold.ties; --found)
    threshold.ties -= counts[found];
  threshold.bits |= found << digit.shift;
  return found;
}

/// Finds the threshold digit by digit, from the highest, by counting: the time
/// of a partial sort would depend on the values. After the first digit few
/// sizes are left. Four counts an entry: values in a row share digits, and
/// each would wait for the one before.
Threshold find_threshold(const float* values, size_t count, size_t k) {
  constexpr Digit first{20, 11};
  Threshold result{0, k};
  std::vector<std::array<uint32_t, 4>> four(size_t{1} << first.bits);
  for (size_t i = 0; i < count; ++i)
    ++four[first.of(size_bits(values[i]))][i % 4];
  std::vector<uint32_t> counts;
  for (const auto& [a, b, c, d] : four)
    counts.push_back(a + b + c + d);
  auto found = take_digit(counts, result, first);
  std::vector<uint32_t> left(counts[found] + 1);
  size_t kept = 0;
  for (size_t i = 0; i < count; ++i) {
    left[kept] = size_bits(values[i]);
    kept += first.of(left[kept]) == found ? 1 : 0;
  }
  left.resize(kept);
  for (const auto digit : {Digit{10, 10}, Digit{0, 10}}) {
    counts.assign(size_t{1} << digit.bits, 0);
    for (auto size : left)
      ++counts[digit.of(size)];
    found = take_digit(counts, result, digit);
    std::erase_if(left, [&](uint32_t size) { return digit.of(size) != found; });
  }
  return result;
}

/// Tells whether the next value is one of the k; counts ties down.
bool takes(Threshold& threshold, uint32_t bits) {
  if (bits != threshold.bits)
    return bits > threshold.bits;
  if (threshold.ties == 0)
    return false;
  --threshold.ties;
  return true;
}

class TopK final : public Compressor {
public:
  explicit TopK(double fraction) : fraction_(fraction) {}

  size_t bytes(size_t count) const override {
    return kept(count) * (sizeof(uint32_t) + sizeof(float));
  }

  void compress(const float* values, float* residual, size_t count,
                std::byte* out) const override {
    require(count <= UINT32_MAX, "too many values for 32-bit indices");
    if (count == 0)
      return;
    std::vector<float> own(residual == nullptr ? count : 0, 0.0f);
    auto* wanted = residual == nullptr ? own.data() : residual;
    for (size_t i = 0; i < count; ++i)
      wanted[i] += values[i];
    const auto k = kept(count);
    auto threshold = find_threshold(wanted, count, k);
    auto* indices = out;
    auto* chosen = out + k * sizeof(uint32_t);
    for (size_t i = 0; i < count; ++i) {
      if (!takes(threshold, size_bits(wanted[i]))) {
        if (!std::isfinite(wanted[i]))
          wanted[i] = 0;
        continue;
      }
      const auto index = static_cast<uint32_t>(i);
      std::memcpy(indices, &index, sizeof index);
      std::memcpy(chosen, &wanted[i], sizeof(float));
      indices += sizeof index;
      chosen += sizeof(float);
      wanted[i] = 0;
    }
  }

protected:
  std::string fault(const std::byte* in, size_t count) const override {
    const auto k = kept(count);
    for (size_t i = 0; i < k; ++i) {
      if (i > 0 && index_at(in, i) <= index_at(in, i - 1))
        return "indices that do not ascend";
      if (index_at(in, i) >= count)
        return "an index beyond the values";
    }
    return {};
  }

  void decode(const std::byte* in, size_t count, float* out,
              bool adds) const override {
    const auto k = kept(count);
    if (!adds)
      std::fill_n(out, count, 0.0f);
    for (size_t i = 0; i < k; ++i) {
      float value = 0;
      std::memcpy(&value, in + k * sizeof(uint32_t) + i * sizeof(float),
                  sizeof value);
      auto& to = out[index_at(in, i)];
      to = adds ? to + value : value;
    }
  }

  std::string name() const override { return "topk"; }

private:
  size_t kept(size_t count) const {
    if (count == 0)
      return 0;
    const auto k = std::ceil(fraction_ * static_cast<double>(count));
    return std::clamp(static_cast<size_t>(k), size_t{1}, count);
  }

  static uint32_t index_at(const std::byte* in, size_t i) {
    uint32_t index = 0;
    std::memcpy(&index, in + i * sizeof index, sizeof index);
    return index;
  }

  double fraction_;
};

} // namespace

std::unique_ptr<Compressor> make_topk(double fraction) {
  require(fraction > 0 && fraction <= 1, "a share of values outside (0, 1]");
  return std::make_unique<TopK>(fraction);
}

} // namespace troupe::kernels
