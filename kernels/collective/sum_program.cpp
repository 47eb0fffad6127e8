#include "kernels/collective/sum_program.hpp"

#include <bit>

namespace troupe {

SumProgram fixed_tree(uint32_t members) {
  SumProgram program;
  program.reserve(members);
  // Taking terms from left to right and merging equal sizes, as a binary
  // counter carries, gives the tree; what is left merges at the end.
  for (uint32_t k = 0; k < members; ++k)
    program.push_back({k, 0, static_cast<uint32_t>(std::countr_one(k))});
  if (members > 0)
    program.back().merges = static_cast<uint32_t>(
      std::popcount(members - 1)); // of the subtrees before the last term
  return program;
}

bool is_sum(const SumProgram& program, uint32_t members) {
  uint64_t held = 0;
  for (const auto& term : program) {
    ++held;
    if (term.member >= members || held > deepest_sum || term.merges >= held)
      return false;
    held -= term.merges;
  }
  return held == 1;
}

uint64_t hash_of(const SumProgram& program) {
  uint64_t hash = 0x9e3779b97f4a7c15 + program.size();
  const auto add = [&hash](uint64_t value) {
    hash = (hash ^ value) * 0xff51afd7ed558ccd;
    hash ^= hash >> 32;
  };
  for (const auto& term : program) {
    add((uint64_t{term.member} << 32) | term.vector);
    add(term.merges);
  }
  return hash;
}

} // namespace troupe
