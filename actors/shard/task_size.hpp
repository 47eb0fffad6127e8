#pragma once

#include "actors/job/shard_tables.hpp"
#include "kernels/engine/executor.hpp"

#include <cstdint>

namespace troupe {

/// How long work takes that goes through so many values a few times.
inline TaskSize task_size(uint64_t values) {
  constexpr uint64_t max_brief = 4096;
  return values <= max_brief ? TaskSize::brief : TaskSize::any;
}

/// The values of a slice's gradient; `ids`: where it is of rows, null: the
/// identity.
inline uint64_t gradient_values(const Job& job, uint32_t slice,
                                const RowList* ids) {
  const auto& of = job.plan.slices[slice];
  if (!of.sparse())
    return of.count;
  return ids == nullptr ? 0 : ids->count() * row_width(job, of);
}

} // namespace troupe
