#include "tests/sim/oracle.hpp"

#include "actors/shard_tables.hpp"
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

namespace {

std::vector<float> rows_of(const SparseTable& table) {
  const auto words = copy_rows(table, table.present());
  return {words.span().begin(), words.span().end()};
}

} // namespace

void Oracle::record_tables(const Job& job, uint64_t version,
                           const ShardStore& store) {
  for (const auto& slice : job.plan.slices)
    if (slice.sparse() && store.newest(slice.id) == version)
      tables[{version, slice.variable, slice.partition}] =
        rows_of(store.table(slice.id));
}

void Oracle::check_table(const Slice& slice, uint64_t version,
                         const ShardStore& store,
                         const std::string& where) const {
  const auto expected = tables.find({version, slice.variable, slice.partition});
  if (expected == tables.end())
    throw Violation("I4", where + " has version " + std::to_string(version)
                            + " of a table, which no run comes to");
  const auto rows = rows_of(store.table(slice.id));
  if (rows.size() != expected->second.size()
      || std::memcmp(rows.data(), expected->second.data(),
                     rows.size() * sizeof(float))
           != 0)
    throw Violation("I3", where + ": other rows of slice "
                            + std::to_string(slice.id) + " at version "
                            + std::to_string(version));
}

namespace {

/// A slice's values while leaves are taken from them.
class Expected {
public:
  Expected(const Job& job, const Slice& slice)
    : job_(job),
      slice_(slice),
      first_(job.flat_offset(slice)),
      values_(slice.count) {
    initialize(job.graph, job.options.seed, slice.variable, slice.offset,
               values_.data(), slice.count);
  }

  void apply(uint64_t step, uint32_t rank, uint32_t samples) {
    for (uint64_t i = 0; i < slice_.count; ++i)
      values_[i] -= leaf_gradient(GradientKind::counted, step, rank, first_ + i,
                                  0)
                    / static_cast<float>(samples);
  }

  /// Errors: Violation of I1; `what` says what they should have had.
  void compare(const float* values, const std::string& where,
               const std::string& what) const {
    for (uint64_t i = 0; i < slice_.count; ++i)
      if (!(std::abs(values[i] - values_[i]) < 0.05f))
        throw Violation("I1", where + ": element " + std::to_string(i)
                                + " of slice " + std::to_string(slice_.id)
                                + " is " + std::to_string(values[i]) + "; with "
                                + what + " it would be "
                                + std::to_string(values_[i]));
  }

private:
  const Job& job_;
  const Slice& slice_;
  const uint64_t first_;
  std::vector<float> values_;
};

} // namespace

void check_leases(const Job& job, const Slice& slice, const LeaseSet& applied,
                  const float* values, const std::string& where) {
  Expected expected{job, slice};
  std::vector<uint64_t> leases(applied.above());
  for (uint64_t lease = 0; lease < applied.floor(); ++lease)
    leases.push_back(lease);
  const auto ranks = job.options.virtual_ranks;
  for (auto lease : leases) {
    const auto rank = static_cast<uint32_t>(lease % ranks);
    expected.apply(lease / ranks, rank,
                   job.sampling.rank(lease / ranks, rank).count);
  }
  expected.compare(values, where,
                   "each of its " + std::to_string(leases.size())
                     + " leases applied once");
}

void check_shares(const Job& job, const Slice& slice, uint64_t version,
                  const std::map<uint64_t, std::vector<RankRange>>& made_of,
                  const float* values, const std::string& where) {
  Expected expected{job, slice};
  for (uint64_t step = 0; step < version; ++step) {
    const auto shares = made_of.find(step);
    if (shares == made_of.end())
      throw Violation("I1", where + " has applied step " + std::to_string(step)
                              + ", of which nothing was decided");
    uint32_t samples = 0;
    for (auto share : shares->second)
      for (auto rank = share.lo; rank < share.hi; ++rank)
        samples += job.sampling.rank(step, rank).count;
    for (auto share : shares->second)
      for (auto rank = share.lo; rank < share.hi; ++rank)
        expected.apply(step, rank, samples);
  }
  expected.compare(values, where,
                   "each of its " + std::to_string(version)
                     + " steps applied once");
}

} // namespace troupe::sim
