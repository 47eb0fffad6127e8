#include "actors/compute/gradient_buckets.hpp"

#include "strategies/bucket_plan.hpp"

#include <algorithm>
#include <limits>
#include <numeric>

namespace troupe {

GradientBuckets make_buckets(const Graph& graph, const Layout& layout,
                             uint64_t bucket_bytes) {
  std::vector<Variable> variables;
  for (const auto& parameter : graph.parameters)
    variables.push_back({parameter.name, parameter.shape});
  std::vector<uint32_t> order(variables.size());
  std::iota(order.rbegin(), order.rend(), 0);
  const auto fused = fuse(
    variables, order,
    bucket_bytes > 0 ? bucket_bytes : std::numeric_limits<uint64_t>::max());
  GradientBuckets buckets;
  buckets.of_parameter.resize(variables.size());
  buckets.hash = layout_hash(variables, fused);
  auto end = layout.total;
  for (const auto& bucket : fused) {
    for (auto variable : bucket.variables)
      buckets.of_parameter[variable] =
        static_cast<uint32_t>(buckets.runs.size());
    const auto begin = layout.offsets[bucket.variables.back()];
    buckets.runs.emplace_back(begin, end);
    end = begin;
  }
  return buckets;
}

std::vector<GradientBuckets> bucket_layouts(const Job& job, bool alone) {
  constexpr uint64_t mib = 1 << 20;
  std::vector<uint64_t> sizes{mib, mib / 4, 4 * mib, 16 * mib, 0};
  if (job.options.bucket_mb > 0)
    sizes = {std::max<uint64_t>(
      1, static_cast<uint64_t>(job.options.bucket_mb * mib))};
  else if (alone || job.options.compress != "none") // residuals are a bucket's
    sizes = {mib};
  std::vector<GradientBuckets> layouts;
  for (auto size : sizes) {
    auto made = make_buckets(job.graph, job.layout, size);
    const auto equal = [&](const auto& x) { return x.runs == made.runs; };
    if (std::none_of(layouts.begin(), layouts.end(), equal))
      layouts.push_back(std::move(made));
  }
  return layouts;
}

BucketProgress::BucketProgress(const GradientBuckets& buckets,
                               const std::function<void(uint32_t)>& ready)
  : buckets_(buckets), ready_(ready), missing_(buckets.runs.size()) {
  for (auto bucket : buckets.of_parameter)
    ++missing_[bucket];
}

void BucketProgress::parameter(uint32_t index) {
  --missing_[buckets_.of_parameter[index]];
  while (next_ < missing_.size() && missing_[next_] == 0)
    ready_(next_++);
}

void BucketProgress::all() {
  while (next_ < missing_.size())
    ready_(next_++);
}

} // namespace troupe
