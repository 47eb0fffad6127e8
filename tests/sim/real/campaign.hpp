#pragma once

#include "tests/sim/real/cluster.hpp"

#include <cstdint>
#include <map>
#include <string>

namespace troupe::real {

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
  void prepare(uint64_t seed) { undisturbed_of(scenario_of(seed)); }

  const Coverage& coverage() const { return coverage_; }
  uint64_t corrupted() const { return corrupted_; }
  /// Fault x phase, as lines of text.
  std::string table() const { return coverage_.text(); }
  std::string sums() const;

private:
  const Cluster::Result& undisturbed_of(const Scenario& scenario);

  std::map<const Job*, Cluster::Result> undisturbed_;
  Coverage coverage_;
  uint64_t commits_ = 0, faults_ = 0, events_ = 0, messages_ = 0;
  uint64_t corrupted_ = 0, changes_ = 0;
};

} // namespace troupe::real
