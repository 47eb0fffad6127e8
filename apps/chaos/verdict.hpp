#pragma once

#include "apps/process/role_processes.hpp"
#include "apps/settings/chaos_kind.hpp"
#include "strategies/step_phase.hpp"

#include <nlohmann/json.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace troupe {

/// A fault that took place.
struct ChaosFault {
  ChaosKind kind = ChaosKind::kill;
  StepPhase phase = StepPhase::none;
  RoleId role;
  uint32_t amount = 0; ///< as ChaosWish
};

/// How the job ended by a fault that ends it, and how it went on.
struct ChaosEnding {
  ChaosKind kind = ChaosKind::signal_all;
  uint64_t steps = 0;   ///< that were made by then
  uint64_t refused = 0; ///< starts, as long as checkpoints could not be read
  std::vector<std::string> failures;
};

/// What a run under faults is judged by.
struct ChaosEvidence {
  uint64_t asked = 0; ///< faults
  std::vector<ChaosFault> faults;
  std::vector<ChaosEnding> endings;
  nlohmann::ordered_json summary;
  nlohmann::ordered_json undisturbed; ///< summary; null: nothing to compare
  bool paired = false;        ///< a worker dies with the shard of its number
  uint64_t lacked_memory = 0; ///< roles that were said to have had too little
  /// Virtual ranks of the workers that were lost, when they were; none: not to
  /// be compared.
  std::optional<uint64_t> leaves_of_the_lost;
  /// What a whole job held before the first fault and after the last.
  std::optional<RoleProcesses::Holdings> before;
  std::optional<RoleProcesses::Holdings> after;
  /// Sockets that a job may have more of when its chains stand in another
  /// order: other workers and shards are linked then.
  uint64_t link_ends = 0;
  std::vector<std::string> left; ///< processes, after the end
  /// Hosts that the job is on; 0: this one. Who is lost with a host, or behind
  /// a cable, is not counted.
  size_t hosts = 0;
  std::vector<std::string> of_hosts; ///< what went wrong with them
  /// The model counts: what each of its parameters should be, and the range
  /// they are in.
  bool counts = false;
  double expected_count = 0;
  double min_count = 0;
  double largest_count = 0;
};

/// {"verdict": "passed" or "failed", "failures": […], "faults": {kind: {count,
/// by_phase}}, "endings": [{kind, steps, refused}], "deaths", "by_phase",
/// "next_commit_ms": {kind: {count, median, worst}}, "held": {"before",
/// "after"}, hashes, …}.
nlohmann::ordered_json judge(const ChaosEvidence& evidence);

} // namespace troupe
