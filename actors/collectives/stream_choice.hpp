#pragma once

#include "actors/collectives/stream_reducer.hpp"
#include "strategies/collective_schedule.hpp"

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace troupe {

/// Tells whether so many bytes are reduced by direct exchange, or along
/// stream_schedule().
bool sums_directly(const StreamOptions& options, uint32_t members,
                   uint64_t bytes);
/// Tells whether, by direct exchange, everybody had better send all it has to
/// everybody.
bool sums_everywhere(uint32_t members, uint64_t bytes);
/// No network lies between the members.
bool on_one_host(const StreamOptions& options);
/// How long a frame's payload may be, where StreamOptions leave it open.
size_t
stream_chunk_bytes(uint32_t members,
                   const std::vector<std::pair<uint64_t, uint64_t>>& buckets);
Schedule stream_schedule(const StreamOptions& options,
                         const CollectivePlace& at);

/// How much the elements of all buckets are.
uint64_t bytes_of(const std::vector<std::pair<uint64_t, uint64_t>>& buckets);

/// A digest of all that members must bring equally to a step.
uint64_t
stream_digest(const StreamOptions& options, const ReducerLayout& layout,
              const std::vector<std::pair<uint64_t, uint64_t>>& buckets,
              const ReduceStep& step);
/// The same for a collective outside steps.
uint64_t call_digest(uint64_t what, uint64_t count);

} // namespace troupe
