#include "tests/sim/oracle.hpp"

#include "actors/job/shard_tables.hpp"
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

std::vector<LeaseSet> no_leases(const Job& job) {
  const auto all = job.total_steps * job.options.virtual_ranks;
  std::vector<LeaseSet> out;
  for (const auto& slice : job.plan.slices)
    out.push_back(job.plan.on_shards(slice.id) ? LeaseSet{}
                                               : LeaseSet{all, {}});
  return out;
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

// --- counted gradients -------------------------------------------------------

Expected::Expected(const Job& job, const Slice& slice)
  : job_(job),
    slice_(slice),
    first_(job.flat_offset(slice)),
    values_(slice.count) {
  initialize(job.graph, job.options.seed, slice.variable, slice.offset,
             values_.data(), slice.count);
}

void Expected::apply(uint64_t step, uint32_t rank, uint32_t samples) {
  for (uint64_t i = 0; i < slice_.count; ++i)
    values_[i] -= leaf_gradient(GradientKind::counted, step, rank, first_ + i,
                                0)
                  / static_cast<float>(samples);
}

void Expected::apply_leases(const LeaseSet& applied, uint64_t begin) {
  std::vector<uint64_t> leases(applied.above());
  for (auto lease = begin; lease < applied.floor(); ++lease)
    leases.push_back(lease);
  const auto ranks = job_.options.virtual_ranks;
  for (auto lease : leases) {
    const auto rank = static_cast<uint32_t>(lease % ranks);
    apply(lease / ranks, rank, job_.sampling.rank(lease / ranks, rank).count);
  }
}

void Expected::apply_step(
  uint64_t step, const std::map<uint64_t, std::vector<RankRange>>* made_of,
  const std::string& where) {
  std::vector<RankRange> shares{{0, job_.options.virtual_ranks}};
  if (made_of != nullptr) {
    const auto known = made_of->find(step);
    if (known == made_of->end())
      throw Violation("I1", where + " has applied step " + std::to_string(step)
                              + ", of which nothing was decided");
    shares = known->second;
  }
  uint32_t samples = 0;
  for (auto share : shares)
    for (auto rank = share.lo; rank < share.hi; ++rank)
      samples += job_.sampling.rank(step, rank).count;
  for (auto share : shares)
    for (auto rank = share.lo; rank < share.hi; ++rank)
      apply(step, rank, samples);
}

void Expected::compare(const float* values, const std::string& where,
                       const std::string& what) const {
  for (uint64_t i = 0; i < slice_.count; ++i)
    if (!(std::abs(values[i] - values_[i]) < 0.05f))
      throw Violation("I1", where + ": element " + std::to_string(i)
                              + " of slice " + std::to_string(slice_.id)
                              + " is " + std::to_string(values[i]) + "; with "
                              + what + " it would be "
                              + std::to_string(values_[i]));
}

} // namespace troupe::sim
