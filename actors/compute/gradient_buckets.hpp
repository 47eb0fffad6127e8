#pragma once

#include "actors/job/job.hpp"

#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

namespace troupe {

/// The flat gradient cut into runs that are reduced at once, in the order in
/// which the backward pass finishes them: from the last parameter to the first.
struct GradientBuckets {
  /// Elements [begin, end) of the flat gradient; together all of it.
  std::vector<std::pair<uint64_t, uint64_t>> runs;
  std::vector<uint32_t> of_parameter;
  uint64_t hash = 0; ///< equal on members that fuse alike (PROTOCOL 20)
};

/// Closes a bucket once it has `bucket_bytes`; 0: one bucket for everything.
GradientBuckets make_buckets(const Graph& graph, const Layout& layout,
                             uint64_t bucket_bytes);

/// What --bucket-mb stands for, or layouts to choose from; the first one is
/// what holds until others have been tried.
std::vector<GradientBuckets> bucket_layouts(const Job& job, bool alone);

/// Called with each bucket, in order, when its run of all sums is final.
using BucketReady = std::function<void(uint32_t bucket)>;

/// Counts parameters whose gradients are final and tells which buckets are,
/// in order.
class BucketProgress {
public:
  BucketProgress(const GradientBuckets& buckets,
                 const std::function<void(uint32_t)>& ready);

  void parameter(uint32_t index); ///< its gradient is final
  void all();                     ///< those of all are

private:
  const GradientBuckets& buckets_;
  const std::function<void(uint32_t)>& ready_;
  std::vector<uint32_t> missing_; ///< parameters, by bucket
  uint32_t next_ = 0;
};

} // namespace troupe
