#pragma once

#include "apps/bench/reduce_side.hpp"

#include <cstdint>
#include <memory>

namespace troupe {

/// How members reach each other.
enum class ReduceLink : uint8_t { memory, shm, tcp };

struct ReduceGroup {
  ReduceLink link = ReduceLink::memory;
  uint32_t members = 2;
  uint64_t max_bytes = 0; ///< of a vector
  bool reproducible = true;
};

/// Troupe's all-reduce: between threads over memory, otherwise between
/// processes that are forked here.
std::unique_ptr<ReduceSide> make_own_side(const ReduceGroup& group);

/// What the machine does at best in the same setting. Memory and shm: each
/// member adds a share of all vectors in place and waits for nobody. TCP: each
/// sends as many bytes as 2 (members - 1) / members of a vector to the next and
/// receives as many from the one before, out of and into a cache, and adds
/// nothing.
std::unique_ptr<ReduceSide> make_limit(const ReduceGroup& group);

} // namespace troupe
