#include "tests/sim/oracle.hpp"

#include "kernels/graph/graph.hpp"

#include <cmath>
#include <cstring>

namespace troupe::sim {

void Oracle::check(const Job& job, const Slice& slice, uint64_t version,
                   const float* values, const std::string& where) const {
  if (version >= versions.size())
    throw Violation("I4", where + " has version " + std::to_string(version)
                            + ", which no run comes to");
  const auto* expected = versions[version].data() + job.flat_offset(slice);
  for (uint64_t i = 0; i < slice.count; ++i)
    if (std::memcmp(values + i, expected + i, sizeof(float)) != 0)
      throw Violation("I3", where + ": element " + std::to_string(i)
                              + " of slice " + std::to_string(slice.id)
                              + " at version " + std::to_string(version)
                              + " is " + std::to_string(values[i]) + ", not "
                              + std::to_string(expected[i]));
}

void check_leases(const Job& job, const Slice& slice, const LeaseSet& applied,
                  const float* values, const std::string& where) {
  std::vector<float> expected(slice.count);
  initialize(job.graph, job.options.seed, slice.variable, slice.offset,
             expected.data(), slice.count);
  std::vector<uint64_t> leases(applied.above());
  for (uint64_t lease = 0; lease < applied.floor(); ++lease)
    leases.push_back(lease);
  const auto ranks = job.options.virtual_ranks;
  const auto first = job.flat_offset(slice);
  for (auto lease : leases) {
    const auto rank = static_cast<uint32_t>(lease % ranks);
    const auto samples = job.sampling.rank(lease / ranks, rank).count;
    for (uint64_t i = 0; i < slice.count; ++i)
      expected[i] -= leaf_gradient(GradientKind::counted, lease / ranks, rank,
                                   first + i, 0)
                     / static_cast<float>(samples);
  }
  for (uint64_t i = 0; i < slice.count; ++i)
    if (!(std::abs(values[i] - expected[i]) < 0.2f))
      throw Violation(
        "I1", where + ": element " + std::to_string(i) + " of slice "
                + std::to_string(slice.id) + " is " + std::to_string(values[i])
                + "; with each of its " + std::to_string(leases.size())
                + " leases applied once it would be "
                + std::to_string(expected[i]));
}

} // namespace troupe::sim
