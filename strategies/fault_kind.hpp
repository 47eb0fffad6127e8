#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace troupe {

/// What happens to a role on purpose.
enum class FaultKind : uint8_t {
  kill,      ///< kill -9 of its process
  stop,      ///< its process stands still, and is woken after some milliseconds
  slow,      ///< a worker computes slowly for some milliseconds
  cut,       ///< one of its links breaks
  nan,       ///< a value of a gradient that a worker computes becomes NaN
  device,    ///< a worker's device fails while it computes
  full_disk, ///< the coordinator's disk is full for some milliseconds
  cut_control, ///< its connection to the coordinator breaks
  slow_disk,   ///< what the coordinator writes takes a second, for milliseconds
  memory,      ///< it gets no more memory
};
inline constexpr uint32_t fault_kinds = 10;

/// Whether the role is lost by it, always.
bool loses_role(FaultKind kind);

/// "kill", …
std::string to_string(FaultKind kind);
/// Returns false for what is no kind.
bool parse(const std::string& name, FaultKind& kind);
/// All names, in order.
std::vector<std::string> names_of_faults();

} // namespace troupe
