#pragma once

#include "strategies/fault_kind.hpp"
#include "strategies/step_phase.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace troupe {

/// What `troupe chaos` does to a job: the first ones, as FaultKind, a role does
/// to itself when it is told to, in a phase of a step; the others are done from
/// outside to its links, to its connection to the coordinator, or to the whole
/// job.
enum class ChaosKind : uint8_t {
  kill,
  stop,
  slow,
  cut,
  nan,
  device,
  full_disk,
  cut_control,
  slow_disk,
  memory,       ///< a worker gets no more memory
  stall,        ///< for some milliseconds nothing passes one of its links
  one_way,      ///< the same, but in one direction alone
  throttle,     ///< for some milliseconds one of its links is slow
  flip,         ///< a bit of what passes one of its links is changed
  slow_control, ///< for some milliseconds what it and the coordinator say to
                ///< one another comes late
  signal_all,   ///< SIGTERM to all its processes; it is started again
  unreadable,   ///< it ends, and its checkpoints cannot be read for a while
  host_kill,    ///< all roles of its host end at once, without a word, and are
                ///< started again after some milliseconds
  host_cut,  ///< for some milliseconds nothing gets from its host to another,
             ///< back, or both
  host_slow, ///< for some milliseconds its host's cable is slow
};
inline constexpr uint32_t chaos_kinds = 20;

/// Whether a proxy between processes does it.
bool is_of_proxy(ChaosKind kind);
/// Whether it is one that links pass.
bool is_of_links(ChaosKind kind);
/// Whether the job is ended by it, in good order, and started again.
bool ends_job(ChaosKind kind);
/// Whether it strikes a whole host, or its cable.
bool is_of_hosts(ChaosKind kind);
/// Whether it is done to a leaf that a worker computes.
bool is_of_workers(ChaosKind kind);
/// Whether the role is lost by it, always.
bool loses_role(ChaosKind kind);
/// What strikes such a role may be, and where it is then.
bool may_strike(ChaosKind kind, RoleKind role, StepPhase phase);
/// Whether it has a duration, in milliseconds; of signal_all, that is how long
/// after a step it comes.
bool lasts(ChaosKind kind);

/// "kill", …
std::string to_string(ChaosKind kind);
/// Returns false for what is no kind.
bool parse(const std::string& name, ChaosKind& kind);
/// All names, in order.
std::vector<std::string> names_of_chaos();

} // namespace troupe
