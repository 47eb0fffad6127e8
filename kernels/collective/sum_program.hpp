#pragma once

#include "kernels/collective/reducer.hpp"

#include <cstdint>

namespace troupe {

/// Partial sums that a program may hold at a time; a tree over n terms holds
/// log2(n) + 1.
constexpr uint32_t deepest_sum = 40;

/// The fixed tree over vector 0 of all members (PROTOCOL 3: a node splits at
/// the largest power of two below its size).
SumProgram fixed_tree(uint32_t members);

/// Tells whether the program leaves exactly one sum, holds no more than
/// `deepest_sum` partial sums and names members below `members` only.
bool is_sum(const SumProgram& program, uint32_t members);

/// Equal programs have equal hashes, on every machine.
uint64_t hash_of(const SumProgram& program);

} // namespace troupe
