#pragma once

#include "actors/job/job.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace troupe {

/// The memory that a role takes in any case, as the plan alone tells: what it
/// keeps and what one of its threads computes with. Samples, messages, further
/// threads and rows of sparse tables come on top.
struct MemoryNeed {
  RoleId role;
  uint64_t variables = 0; ///< parameters and optimizer state, in all banks
  uint64_t gradients = 0;
  /// Activations of micro-batches, as many as are held, and what norms over
  /// virtual ranks tell others.
  uint64_t step = 0;
  /// That a worker drives together: each has as much.
  uint64_t devices = 1;
  uint64_t bytes() const { return variables + gradients + step; } ///< of each
  uint64_t of_all() const { return devices * bytes(); }
};

/// What each role of the plan needs. `step` is left out where the caller has no
/// use for it: it takes a while.
std::vector<MemoryNeed> memory_needs(const Job& job, bool with_steps = true);

/// "needs about 1.9 GiB (variables 1.2 GiB, gradients 410 MiB, a step 300
/// MiB)", "…, on each of 4 devices"
std::string in_words(const MemoryNeed& need);
/// The same, after the role's name.
std::string to_string(const MemoryNeed& need);

/// What a machine, or a control group, has for a job.
struct MemoryLimits {
  uint64_t together = 0; ///< for all processes; 0: no limit
  std::string whose;     ///< that limit: "the control group"
  uint64_t process = 0;  ///< for each; 0: no limit
};
/// Errors: empty; else one line that says why the job does not fit, whose
/// roles are all on this machine.
std::string misfit(const Job& job, const MemoryLimits& limits);

/// Whether no role needs more than --device-memory allows.
bool keeps_to_limit(const Job& job);

/// Errors: empty; else one line that says which role needs more than
/// --device-memory allows, and what would fit.
std::string device_misfit(const Job& job);

} // namespace troupe
