#include "actors/job/statistics_room.hpp"

#include <algorithm>

namespace troupe {
namespace {

/// A norm has two doubles a channel.
size_t most_values(const Graph& graph) {
  size_t most = 0;
  for (const auto& op : graph.ops)
    if (op.attributes.cross_replica)
      most = std::max<size_t>(most, 2 * graph.values[op.output].shape.back());
  return most;
}

} // namespace

size_t statistics_block(size_t ranks, size_t values) {
  constexpr auto line = statistics_head;
  return (line + ranks * (1 + values) + line - 1) / line * line;
}

size_t statistics_elements(uint32_t members, uint32_t virtual_ranks,
                           size_t values) {
  return floats_of_double
         * (members * statistics_block(0, 0) + members * statistics_head
            + statistics_block(virtual_ranks, values));
}

StatisticsRoom::StatisticsRoom(const Job& job, uint32_t workers) {
  if (workers == 1 || !job.goes_in_lock_step())
    return;
  values = most_values(job.worker_graph);
  const auto elements = statistics_elements(workers, job.options.virtual_ranks,
                                            values);
  arrays =
    static_cast<uint32_t>((elements + job.layout.total - 1) / job.layout.total);
}

} // namespace troupe
