#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace troupe {

/// What the control groups that this process is in allow it: the least of its
/// own group and of all above that it can see, of versions 1 and 2.
struct ControlGroup {
  double processors = 0;     ///< time of so many; 0: no limit
  uint64_t memory_bytes = 0; ///< 0: no limit
  uint64_t tasks = 0;        ///< processes and threads; 0: no limit
};

/// Reads below `root`, which tests choose: /proc/self/cgroup,
/// /proc/self/mountinfo, and the groups where those say. What cannot be read
/// limits nothing.
ControlGroup read_control_group(const std::string& root = "");

/// How many processes the kernel has ended for want of memory: of this group if
/// that tells, else of the machine.
/// Errors: nullopt where neither can be read.
std::optional<uint64_t> count_memory_kills(const std::string& root = "");

/// How many of `allowed` processors (by affinity) a group's time is enough for:
/// its whole ones, and one at least.
uint32_t processors_within(uint32_t allowed, const ControlGroup& group);

/// "512 MiB", "1.9 GiB"
std::string in_units(uint64_t bytes);

} // namespace troupe
