#pragma once

#include "actors/job.hpp"
#include "actors/shard_store.hpp"
#include "strategies/leases.hpp"
#include "tests/sim/gradient.hpp"

#include <cstdint>
#include <map>
#include <stdexcept>
#include <string>
#include <tuple>
#include <vector>

namespace troupe::sim {

/// An invariant of DESIGN.md does not hold; `name` is "I3" or the like.
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

/// Of counted gradients: a slice's values after these leases, each applied
/// once, whatever their order.
/// Errors: Violation of I1, naming `where`.
void check_leases(const Job& job, const Slice& slice, const LeaseSet& applied,
                  const float* values, const std::string& where);

/// Of counted gradients, k of n: a slice's values after so many steps, each
/// made of these ranks. Errors: Violation of I1, naming `where`.
void check_shares(const Job& job, const Slice& slice, uint64_t version,
                  const std::map<uint64_t, std::vector<RankRange>>& made_of,
                  const float* values, const std::string& where);

} // namespace troupe::sim
