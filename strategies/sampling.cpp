#include "strategies/sampling.hpp"

#include "strategies/require.hpp"

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

namespace troupe {

namespace {

constexpr uint64_t golden = 0x9e3779b97f4a7c15;

/// A bijection of 64-bit words in which each output bit depends on each input
/// bit. Source: Steele, Lea, Flood, "Fast Splittable Pseudorandom Number
/// Generators" (OOPSLA 2014), with the constants of Stafford's variant 13.
constexpr uint64_t mix(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

/// Returns floor(x bound / 2^64): a number below `bound`, which is at most
/// 2^32. No value is likelier than another by more than bound / 2^64.
constexpr uint64_t below(uint64_t bound, uint64_t x) {
  auto high = (x >> 32) * bound;
  auto low = (x & 0xffffffff) * bound;
  return (high + (low >> 32)) >> 32;
}

/// Shuffles 0 … size-1 (Fisher-Yates); word i of the generator depends on
/// (seed, epoch, i) alone, so that nothing drawn elsewhere can disturb it.
void permute(uint64_t seed, uint64_t epoch, std::vector<uint32_t>& out) {
  // std::shuffle and the standard distributions differ between libraries.
  auto key = mix(mix(seed + golden) ^ (epoch + 1) * golden);
  std::iota(out.begin(), out.end(), uint32_t{0});
  for (auto i = static_cast<uint64_t>(out.size()); i > 1; --i)
    std::swap(out[i - 1], out[below(i, mix(key + i * golden))]);
}

} // namespace

Sampling::Sampling(uint64_t seed, uint64_t samples, uint32_t global_batch,
                   uint32_t virtual_ranks)
  : seed_(seed),
    samples_(samples),
    global_batch_(global_batch),
    virtual_ranks_(virtual_ranks) {
  strategies::require(samples > 0, "a data set needs a sample");
  strategies::require(samples <= std::numeric_limits<uint32_t>::max(),
                      "sample indices have 32 bits");
  strategies::require(global_batch > 0, "a batch needs a sample");
  strategies::require(virtual_ranks > 0, "a job needs a virtual rank");
}

uint64_t Sampling::steps_per_epoch() const {
  return (samples_ + global_batch_ - 1) / global_batch_;
}

StepSamples Sampling::step(uint64_t step) const {
  auto per_epoch = steps_per_epoch();
  auto first = step % per_epoch * global_batch_;
  auto count = std::min<uint64_t>(global_batch_, samples_ - first);
  return {step / per_epoch, first, static_cast<uint32_t>(count)};
}

StepSamples Sampling::rank(uint64_t step, uint32_t virtual_rank) const {
  strategies::require(virtual_rank < virtual_ranks_,
                      "the virtual rank is out of range");
  auto all = this->step(step);
  auto cut = [&](uint64_t v) { return v * all.count / virtual_ranks_; };
  auto lo = cut(virtual_rank);
  auto hi = cut(uint64_t{virtual_rank} + 1);
  return {all.data_epoch, all.first + lo, static_cast<uint32_t>(hi - lo)};
}

void Sampling::indices(uint64_t step, uint32_t virtual_rank,
                       std::vector<uint32_t>& out) {
  auto positions = rank(step, virtual_rank);
  if (permutation_.empty() || permuted_epoch_ != positions.data_epoch) {
    permutation_.resize(samples_);
    permute(seed_, positions.data_epoch, permutation_);
    permuted_epoch_ = positions.data_epoch;
  }
  auto first = permutation_.data() + positions.first;
  out.assign(first, first + positions.count);
}

} // namespace troupe
