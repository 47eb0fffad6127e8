#include "kernels/collective/shared_sum.hpp"

#include "kernels/collective/sum_loops.hpp"
#include "kernels/collective/sum_program.hpp"

#include <algorithm>
#include <cstring>

namespace troupe {

namespace {

/// Elements that `update` gets at a time: with the results it reads and
/// writes they stay in the nearest caches.
constexpr uint64_t update_elements = 4096;

} // namespace

SharedSum::SharedSum() : scratch_(update_elements) {}

void SharedSum::set_program(const SumProgram& wanted) {
  if (!merges_.empty() && wanted == program)
    return;
  program = wanted;
  program_hash = hash_of(program);
  merges_.clear();
  for (const auto& term : program)
    merges_.push_back(term.merges);
}

void SharedSum::sum(uint64_t begin, uint64_t end) {
  if (update)
    return sum_and_update(begin, end);
  const auto& loops = kernels::sum_loops();
  const auto run = past_cache ? loops.sum_past_cache : loops.sum;
  run({terms.data(), merges_.data(), static_cast<uint32_t>(terms.size())},
      begin, end, outs.data(), static_cast<uint32_t>(outs.size()));
}

void SharedSum::sum_and_update(uint64_t begin, uint64_t end) {
  const auto& loops = kernels::sum_loops();
  const auto count = static_cast<uint32_t>(terms.size());
  for (uint64_t at = begin; at < end;) {
    const auto stop = std::min(end, at + update_elements);
    // A sum of one term is there already.
    const float* sum = terms[0] + at;
    if (count > 1) {
      float* out = scratch_.data() - at;
      loops.sum({terms.data(), merges_.data(), count}, at, stop, &out, 1);
      sum = scratch_.data();
    }
    update(at, stop, sum);
    for (auto [from, to] : copies)
      if (past_cache)
        loops.copy_past_cache(from + at, to + at, stop - at);
      else
        std::memcpy(to + at, from + at, (stop - at) * sizeof(float));
    at = stop;
  }
}

} // namespace troupe
