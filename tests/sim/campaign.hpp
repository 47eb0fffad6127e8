#pragma once

#include "tests/sim/cluster.hpp"

#include <cstdint>
#include <map>
#include <optional>
#include <string>

namespace troupe::sim {

/// Runs worlds, one for each seed, and keeps account of them.
class Campaign {
public:
  struct Verdict {
    std::string what; ///< is broken: the invariant, and how; empty: none
    Cluster::Result result;
  };

  /// The seed's world in words.
  static std::string describe(uint64_t seed);
  Verdict run(uint64_t seed, bool trace = false);

  /// Makes what the seed's world will be compared with.
  void prepare(uint64_t seed) { oracle_of(scenario_of(seed)); }

  const Coverage& coverage() const { return coverage_; }
  uint64_t commits() const { return commits_; }
  uint64_t faults() const { return faults_; }
  uint64_t events() const { return events_; }
  /// Changes of members and slices that were made while worlds ran.
  uint64_t changes() const { return changes_; }
  uint64_t switches() const { return switches_; } ///< of consistency
  /// Worlds in which more failed than the job promises to survive: among those
  /// that are not meant to be such, and among those that are.
  uint64_t beyond() const { return beyond_; }
  uint64_t reckless() const { return reckless_; }
  /// Fault x phase, as lines of text.
  std::string table() const { return coverage_.text(); }
  std::string sums() const;

private:
  const Oracle& oracle_of(const Scenario& scenario);

  std::map<const Job*, Oracle> oracles_;
  Coverage coverage_;
  uint64_t commits_ = 0, faults_ = 0, events_ = 0, beyond_ = 0;
  uint64_t reckless_ = 0, changes_ = 0, switches_ = 0;
};

} // namespace troupe::sim
