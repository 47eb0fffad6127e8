#pragma once

#include <nlohmann/json.hpp>

#include <cstdint>
#include <string>
#include <vector>

namespace troupe {

/// What a run under faults is judged by.
struct ChaosEvidence {
  uint64_t asked = 0; ///< deaths
  nlohmann::ordered_json summary;
  nlohmann::ordered_json undisturbed; ///< summary; null: nothing to compare
  /// Of a model that counts: what each parameter should be, and the range they
  /// are in.
  bool counts = false;
  double expected_count = 0;
  double least_count = 0;
  double largest_count = 0;
};

/// {"verdict": "passed" or "failed", "failures": […], "deaths", "by_phase",
/// "next_commit_ms": {kind: {count, median, worst}}, hashes, …}.
nlohmann::ordered_json judge(const ChaosEvidence& evidence);

} // namespace troupe
