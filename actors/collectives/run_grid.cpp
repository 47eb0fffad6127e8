#include "actors/collectives/run_grid.hpp"

#include "strategies/collective_schedule.hpp"

#include <algorithm>

namespace troupe {

RunGrid::RunGrid(std::vector<std::pair<uint64_t, uint64_t>> buckets,
                 Options options)
  : buckets_(std::move(buckets)), options_(options) {
  for (uint32_t b = 0; b < this->buckets(); ++b) {
    elements_ = std::max(elements_, buckets_[b].second);
    for (uint32_t r = 0; r < options_.members; ++r)
      for (uint32_t c = 0; c < chunks(b, r); ++c) {
        const auto [begin, end] = chunk(b, r, c);
        longest_ = std::max(longest_, end - begin);
      }
  }
}

std::pair<uint64_t, uint64_t> RunGrid::run(uint32_t bucket,
                                           uint32_t run) const {
  const auto [first, last] = buckets_[bucket];
  if (options_.everyone)
    return {first, last};
  const auto unit = options_.unit;
  const auto [begin, end] = run_of((last - first + unit - 1) / unit, run,
                                   options_.members);
  return {std::min(first + begin * unit, last),
          std::min(first + end * unit, last)};
}

uint32_t RunGrid::chunks(uint32_t bucket, uint32_t run) const {
  const auto [begin, end] = this->run(bucket, run);
  const auto count = (end - begin + options_.chunk - 1) / options_.chunk;
  return static_cast<uint32_t>(std::max<uint64_t>(1, count));
}

std::pair<uint64_t, uint64_t> RunGrid::chunk(uint32_t bucket, uint32_t run,
                                             uint32_t index) const {
  const auto [first, last] = this->run(bucket, run);
  const auto unit = options_.unit;
  const auto [begin, end] = run_of((last - first + unit - 1) / unit, index,
                                   chunks(bucket, run));
  return {std::min(first + begin * unit, last),
          std::min(first + end * unit, last)};
}

void GridCursor::advance(const RunGrid& grid, uint32_t run, uint32_t parts) {
  if (++part < parts)
    return;
  part = 0;
  ++index;
  if (++chunk < grid.chunks(bucket, run))
    return;
  chunk = 0;
  ++bucket;
}

} // namespace troupe
