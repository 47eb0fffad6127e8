#pragma once

#include "strategies/fault_kind.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace troupe {

/// What `troupe chaos` does to a job: the first ones, as FaultKind, a role does
/// to itself when it is told to, in a phase of a step; the others are done to
/// its links from outside.
enum class ChaosKind : uint8_t {
  kill,
  stop,
  slow,
  cut,
  stall,    ///< for some milliseconds nothing passes one of its links
  one_way,  ///< the same, but in one direction alone
  throttle, ///< for some milliseconds one of its links is slow
  flip,     ///< a bit of what passes one of its links is changed
};
inline constexpr uint32_t chaos_kinds = 8;

/// Whether a proxy between processes does it.
bool is_of_links(ChaosKind kind);
/// Whether it has a duration, in milliseconds.
bool lasts(ChaosKind kind);

/// "kill", …
std::string to_string(ChaosKind kind);
/// Returns false for what is no kind.
bool parse(const std::string& name, ChaosKind& kind);
/// All names, in order.
std::vector<std::string> names_of_chaos();

} // namespace troupe
