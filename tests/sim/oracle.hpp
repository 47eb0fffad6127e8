#pragma once

#include "actors/job/job.hpp"
#include "actors/shard/shard_store.hpp"
#include "strategies/leases.hpp"
#include "tests/sim/gradient.hpp"

#include <cstdint>
#include <map>
#include <stdexcept>
#include <string>
#include <tuple>
#include <vector>

namespace troupe::sim {

/// An invariant of docs/protocol.md does not hold; `name` is "I3" or the like.
class Violation : public std::runtime_error {
public:
  Violation(const std::string& name, const std::string& what)
    : std::runtime_error(name + ": " + what), name(name) {}
  std::string name;
};

/// What a run must come to.
struct Oracle {
  /// The flat parameters of each version, and the hashes at the end, of an
  /// undisturbed run with one worker. Of runs whose sums are ordered.
  std::vector<std::vector<float>> versions;
  /// Rows that are there, with their state, by version, variable and part.
  std::map<std::tuple<uint64_t, uint32_t, uint32_t>, std::vector<float>> tables;
  std::string weights_sha256;
  std::string state_sha256;

  /// Compares a slice at a version with that run.
  /// Errors: Violation of I3, naming `where`.
  void check(const Job& job, const Slice& slice, uint64_t version,
             const float* values, const std::string& where) const;
  void record_tables(const Job& job, uint64_t version, const ShardStore& store);
  /// The same of what a store has of a sparse table.
  void check_table(const Slice& slice, uint64_t version,
                   const ShardStore& store, const std::string& where) const;
};

/// By slice: none, or all where leases are no matter of shards.
std::vector<LeaseSet> no_leases(const Job& job);

/// Of counted gradients: what a slice comes to, whatever the order.
class Expected {
public:
  Expected(const Job& job, const Slice& slice);

  /// A micro-batch of a step whose mean is over so many samples.
  void apply(uint64_t step, uint32_t rank, uint32_t samples);
  /// Those from `begin` on.
  void apply_leases(const LeaseSet& applied, uint64_t begin);
  /// `made_of`: k of n, the ranks of each step; null: all.
  /// Errors: Violation of I1 where a step is not known, naming `where`.
  void apply_step(uint64_t step,
                  const std::map<uint64_t, std::vector<RankRange>>* made_of,
                  const std::string& where);

  /// Errors: Violation of I1; `what` says what it should have had.
  void compare(const float* values, const std::string& where,
               const std::string& what) const;

private:
  const Job& job_;
  const Slice& slice_;
  const uint64_t first_;
  std::vector<float> values_;
};

} // namespace troupe::sim
