#pragma once

#include "kernels/base/buffer.hpp"
#include "kernels/collective/shared_reducer.hpp"
#include "kernels/collective/shared_segment.hpp"

#include <boost/test/unit_test.hpp>

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace troupe {

/// What the tests of shared reducers share: groups of threads and of
/// processes, values, and the sum as it is defined.
namespace shared_group {

using Clock = std::chrono::steady_clock;

Clock::time_point soon();

/// Control memory of a group, inside one process.
class Control {
public:
  explicit Control(uint32_t members, uint64_t first = 0);
  std::byte* get() const { return memory_.get(); }

private:
  struct Release {
    void operator()(std::byte* memory) const;
  };
  std::unique_ptr<std::byte, Release> memory_;
};

/// Runs `body` for each rank, each in a thread of its own.
void in_threads(uint32_t members, const std::function<void(uint32_t)>& body);

/// A value that depends on everything, its sums rounded.
float value_of(uint32_t member, uint32_t vector, uint64_t element,
               uint64_t round);

/// The tree that PROTOCOL 3 defines, as it is written there.
float tree_of(const std::vector<float>& values);

/// What a program leaves of `values[member][vector]`, by the definition of
/// SumTerm.
float sum_of(const SumProgram& program,
             const std::function<float(uint32_t, uint32_t)>& value);

/// With a layout hash of 77.
ReducerLayout
layout_of(uint32_t rank, uint32_t members,
          std::vector<std::pair<uint64_t, uint64_t>> buckets = {});

/// A vector of value_of.
Buffer filled(uint32_t member, uint32_t vector, size_t count, uint64_t round);

/// Cuts [0, count) at odd places, the last range first.
std::vector<std::pair<uint64_t, uint64_t>> cut(uint64_t count,
                                               uint64_t buckets);

/// A whole step, all buckets at once.
CollectiveResult take_step(SharedReducer& reducer, ReduceStep step,
                           uint32_t buckets);

/// Open descriptors and mapped segments of this process.
struct Held {
  size_t descriptors;
  size_t mappings;
};
Held held();

} // namespace shared_group

} // namespace troupe
