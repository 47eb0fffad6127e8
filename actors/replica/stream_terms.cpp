#include "actors/replica/stream_terms.hpp"

namespace troupe {
namespace {

StreamAlgorithm algorithm_of(const Job& job) {
  if (job.options.reduction != "fast")
    return StreamAlgorithm::reproducible;
  const auto& name = job.options.all_reduce;
  if (name == "ring")
    return StreamAlgorithm::ring;
  if (name == "halving_doubling")
    return StreamAlgorithm::halving_doubling;
  if (name == "hierarchical" || name == "hierarchical_copy")
    return StreamAlgorithm::hierarchical;
  return StreamAlgorithm::automatic;
}

} // namespace

StreamOptions stream_options(const Job& job, const Fence& fence) {
  StreamOptions options;
  options.job = fence.job;
  options.term = fence.term;
  options.epoch = fence.epoch;
  options.algorithm = algorithm_of(job);
  options.compression = parse_compression(job.options.compress);
  return options;
}

} // namespace troupe
