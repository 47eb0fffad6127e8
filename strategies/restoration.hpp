#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace troupe {

/// The versions of one slice that its owner can serve.
struct Restorable {
  uint64_t oldest = 0;
  uint64_t newest = 0;
};

struct Restoration {
  uint64_t version = 0; ///< where every role goes on
  bool rollback = false; ///< owners must restore `version` first
  std::string reason;
};

/// Decides where a synchronous job goes on after an epoch change: the lowest
/// newest version, if every slice still has it (PROTOCOL 9 makes that so as
/// long as no owner lost its state); otherwise all go back to version 0, which
/// the seed alone restores.
Restoration decide_restoration(const std::vector<Restorable>& slices);

} // namespace troupe
