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
                   uint32_t virtual_ranks, uint32_t least)
  : seed_(seed),
    samples_(samples),
    global_batch_(global_batch),
    virtual_ranks_(virtual_ranks),
    min_(least) {
  strategies::require(samples > 0, "a data set needs a sample");
  strategies::require(samples <= std::numeric_limits<uint32_t>::max(),
                      "sample indices have 32 bits");
  strategies::require(global_batch > 0, "a batch needs a sample");
  strategies::require(virtual_ranks > 0, "a job needs a virtual rank");
  strategies::require(least == 1 || least == 2, "a rank needs one sample, or "
                                                "two");
}

uint64_t Sampling::steps_per_epoch() const {
  return (samples_ + global_batch_ - 1) / global_batch_;
}

StepSamples Sampling::step(uint64_t step) const {
  const auto per_epoch = steps_per_epoch();
  const auto place = step % per_epoch;
  auto first = place * global_batch_;
  auto end = std::min<uint64_t>(first + global_batch_, samples_);
  // A last sample that would be alone gets another one to it.
  if (min_ == 2 && per_epoch > 1 && global_batch_ > min_
      && samples_ % global_batch_ == 1) {
    end -= place + 2 == per_epoch ? 1 : 0;
    first -= place + 1 == per_epoch ? 1 : 0;
  }
  return {step / per_epoch, first, static_cast<uint32_t>(end - first)};
}

uint32_t Sampling::shared_by(uint32_t samples) const {
  return min_ == 1 ? virtual_ranks_
                   : std::min(virtual_ranks_, std::max(1u, samples / min_));
}

StepSamples Sampling::rank(uint64_t step, uint32_t virtual_rank) const {
  strategies::require(virtual_rank < virtual_ranks_,
                      "the virtual rank is out of range");
  const auto all = this->step(step);
  const uint64_t parts = shared_by(all.count);
  // Part k goes to the last rank v with ceil(v parts / V) = k.
  auto cut = [&](uint64_t v) {
    const auto part = (v * parts + virtual_ranks_ - 1) / virtual_ranks_;
    return part * all.count / parts;
  };
  auto lo = cut(virtual_rank);
  auto hi = cut(uint64_t{virtual_rank} + 1);
  return {all.data_epoch, all.first + lo, static_cast<uint32_t>(hi - lo)};
}

uint32_t Sampling::filled(uint64_t step) const {
  const auto count = this->step(step).count;
  return std::min(count, shared_by(count));
}

uint32_t Sampling::max_of_rank() const {
  uint32_t most = 1;
  const auto steps = steps_per_epoch();
  for (uint64_t step :
       {uint64_t{0}, steps - std::min<uint64_t>(2, steps), steps - 1}) {
    const auto count = this->step(step).count;
    const auto parts = shared_by(count);
    most = std::max(most, (count + parts - 1) / parts);
  }
  return most;
}

uint32_t Sampling::max_of_step() const {
  return static_cast<uint32_t>(std::min<uint64_t>(global_batch_, samples_));
}

uint64_t Sampling::short_steps() const {
  const auto steps = steps_per_epoch();
  const auto is_short = [&](uint64_t step) {
    return this->step(step).count < min_ ? 1u : 0u;
  };
  // All but the last two have as many as the batch.
  return steps == 1 ? is_short(0)
                    : is_short(0) * (steps - 1) + is_short(steps - 1);
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
