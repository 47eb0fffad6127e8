#pragma once

#include "kernels/base/buffer.hpp"
#include "kernels/collective/brought.hpp"
#include "kernels/collective/reducer.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace troupe {

/// A step's sum, with all members' arrays at their addresses in this process.
struct SharedSum {
  struct Copy {
    const float* from;
    float* to;
  };

  SharedSum();

  /// Sums elements [begin, end) of `terms` and writes them to `outs`; or hands
  /// them to `update` and makes the copies.
  void sum(uint64_t begin, uint64_t end);
  /// Finds the arrays that all members brought; segments[i] is where this
  /// process maps those of member i. Says who brought one that cannot be used;
  /// empty where nobody did.
  std::string locate(const std::vector<const Brought*>& brought, uint32_t rank,
                     const std::vector<std::span<std::byte>>& segments);
  /// Takes a tree over, unless it is the one held.
  void set_program(const SumProgram& wanted);

  SumProgram program;
  uint64_t program_hash = 0;
  std::vector<const float*> terms; ///< in the program's order
  std::vector<float*> outs;
  std::vector<Copy> copies; ///< of this member's results to the others
  RunUpdate update;
  bool past_cache = false; ///< what is written goes past the caches

private:
  void sum_and_update(uint64_t begin, uint64_t end);

  std::vector<uint32_t> merges_;
  Buffer scratch_;
};

} // namespace troupe
