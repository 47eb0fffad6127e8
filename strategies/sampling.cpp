#include "strategies/sampling.hpp"

#include "strategies/random_words.hpp"
#include "strategies/require.hpp"

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

namespace troupe {

namespace {

using strategies::below;
using strategies::golden;
using strategies::mix;

constexpr uint64_t epoch_key(uint64_t seed, uint64_t epoch) {
  return mix(mix(seed + golden) ^ (epoch + 1) * golden);
}

constexpr uint64_t window_key(uint64_t epoch_key, uint64_t window) {
  constexpr uint64_t stream = 0x77696e646f77;
  return mix(epoch_key ^ mix(stream + window * golden));
}

/// Shuffles (Fisher-Yates); word i of the generator depends on (key, i) alone,
/// so that nothing drawn elsewhere can disturb it.
template <class Number>
void shuffle(uint64_t key, std::vector<Number>& out) {
  // std::shuffle and the standard distributions differ between libraries.
  for (auto i = static_cast<uint64_t>(out.size()); i > 1; --i)
    std::swap(out[i - 1], out[below(i, mix(key + i * golden))]);
}

} // namespace

Sampling::Sampling(uint64_t seed, uint64_t samples, uint32_t global_batch,
                   uint32_t virtual_ranks, uint32_t least,
                   const SampleBlocks& blocks)
  : seed_(seed),
    samples_(samples),
    global_batch_(global_batch),
    virtual_ranks_(virtual_ranks),
    min_(least),
    blocks_(blocks) {
  strategies::require(samples > 0, "a data set needs a sample");
  strategies::require(samples <= uint64_t{1} << 63,
                      "no data set has so many samples");
  strategies::require(global_batch > 0, "a batch needs a sample");
  strategies::require(virtual_ranks > 0, "a job needs a virtual rank");
  strategies::require(least == 1 || least == 2, "a rank needs one sample, or "
                                                "two");
  strategies::require(blocks.window > 0, "a window needs a block");
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
                       std::vector<uint64_t>& out) {
  auto positions = rank(step, virtual_rank);
  if (permuted_epoch_ != positions.data_epoch)
    begin_epoch(positions.data_epoch);
  out.clear();
  if (blocks_.size == 0) {
    for (uint32_t i = 0; i < positions.count; ++i)
      out.push_back(unit_at(positions.first + i));
    return;
  }
  auto at = positions.first;
  const auto end = at + positions.count;
  while (at < end) {
    const auto& window = window_at(at);
    const auto* from = window.samples.data() + (at - window.first);
    const auto count =
      std::min<uint64_t>(end - at, window.first + window.samples.size() - at);
    out.insert(out.end(), from, from + count);
    at += count;
  }
}

/// What is permuted: samples, or blocks.
uint64_t Sampling::units() const {
  const auto size = std::max(1u, blocks_.size);
  return samples_ / size + (samples_ % size > 0 ? 1 : 0);
}

uint64_t Sampling::unit_at(uint64_t position) const {
  return wide_ ? wide_->at(position) : permutation_[position];
}

void Sampling::begin_epoch(uint64_t epoch) {
  const auto key = epoch_key(seed_, epoch);
  const auto last = units() - 1;
  if (last < std::numeric_limits<uint32_t>::max()) {
    permutation_.resize(last + 1);
    std::iota(permutation_.begin(), permutation_.end(), uint32_t{0});
    shuffle(key, permutation_);
  } else {
    wide_.emplace(key, last + 1);
  }
  permuted_epoch_ = epoch;
  if (blocks_.size == 0)
    return;
  last_block_ = wide_ ? wide_->position_of(last)
                      : static_cast<uint64_t>(
                        std::find(permutation_.begin(), permutation_.end(),
                                  static_cast<uint32_t>(last))
                        - permutation_.begin());
  windows_ = {};
}

uint64_t Sampling::first_of_window(uint64_t number) const {
  const auto all = units();
  const auto blocks = std::min<uint64_t>(number * blocks_.window, all);
  const auto missing = all * blocks_.size - samples_;
  return blocks * blocks_.size - (last_block_ < blocks ? missing : 0);
}

const Sampling::Window& Sampling::window_at(uint64_t position) {
  // Windows begin earlier than they would, had the last block all its samples.
  auto number = position / (uint64_t{blocks_.size} * blocks_.window);
  if (position >= first_of_window(number + 1))
    ++number;
  auto& window = windows_[number % windows_.size()];
  if (window.number == number)
    return window;
  window.number = number;
  window.first = first_of_window(number);
  window.samples.clear();
  const auto first = number * blocks_.window;
  const auto last = std::min<uint64_t>(first + blocks_.window, units());
  for (auto i = first; i < last; ++i) {
    const auto begin = unit_at(i) * blocks_.size;
    const auto end = std::min(begin + blocks_.size, samples_);
    for (auto sample = begin; sample < end; ++sample)
      window.samples.push_back(sample);
  }
  shuffle(window_key(epoch_key(seed_, permuted_epoch_), number),
          window.samples);
  return window;
}

} // namespace troupe
