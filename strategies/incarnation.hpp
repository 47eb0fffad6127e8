#pragma once

#include <cstdint>

namespace troupe {

// A member's incarnation is a number that no other member of the job had: the
// coordinator of a term counts from what it begins with.

/// No coordinator of an earlier term gave a number as large.
constexpr uint64_t first_incarnation(uint64_t term) {
  return term << 32;
}

/// The term of the coordinator that gave the number; 0: of a job's first one.
constexpr uint64_t term_of(uint64_t incarnation) {
  return incarnation >> 32;
}

} // namespace troupe
