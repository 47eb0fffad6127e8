#include "actors/stage/scalar_rounds.hpp"

#include <cstring>

namespace troupe {
namespace {

constexpr size_t elements_of_sum = sizeof(double) / sizeof(float);

} // namespace

StageScalars::StageScalars(const Job& job, uint32_t stage)
  : job_(job), stage_(stage), rounds_(rounds_of(job.options)) {}

void StageScalars::begin() {
  round_ = 0;
  scalars_ = {};
}

uint64_t StageScalars::sums_elements(uint32_t round) const {
  uint64_t sums = 0;
  for (const auto& slice : job_.plan.slices)
    if (job_.plan.owner[slice.id] > stage_)
      sums += sums_of(job_, slice, rounds_[round]);
  return elements_of_sum * sums;
}

uint64_t StageScalars::scalars_elements(uint32_t round) const {
  return rounds_[round] == ScalarRoundKind::gradient_norm
           ? 1
           : job_.plan.variables.size();
}

TensorView StageScalars::join(const std::vector<double>& own,
                              const TensorView& later) {
  std::vector<float> all(elements_of_sum * own.size() + later.size());
  if (!own.empty())
    std::memcpy(all.data(), own.data(), own.size() * sizeof(double));
  if (later.size() > 0)
    std::memcpy(all.data() + elements_of_sum * own.size(), later.data(),
                later.bytes());
  return TensorView::copy(all);
}

TensorView StageScalars::decide(const TensorView& sums,
                                uint32_t samples) const {
  RoundSums all{job_, kind()};
  const auto* at = sums.data();
  for (const auto& stage : job_.plan.of_kind(job_.plan.owner_kind)) {
    if (stage.role.index == job_.plan.owners)
      break; // other pipelines have the same sums
    for (auto id : stage.slices) {
      if (job_.plan.owner[id] != stage.role.index)
        continue; // another member shows it
      const auto& slice = job_.plan.slices[id];
      std::vector<double> of_slice(sums_of(job_, slice, kind()));
      if (!of_slice.empty())
        std::memcpy(of_slice.data(), at, of_slice.size() * sizeof(double));
      at += elements_of_sum * of_slice.size();
      all.put(slice, of_slice);
    }
  }
  return TensorView::copy(all.scalars(samples));
}

bool StageScalars::take(const TensorView& scalars) {
  const bool fits = take_scalars(
    job_, kind(), {scalars.data(), scalars.data() + scalars.size()}, scalars_);
  round_ += fits ? 1 : 0;
  return fits;
}

} // namespace troupe
