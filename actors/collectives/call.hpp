#pragma once

#include "actors/wire/tensor_view.hpp"
#include "kernels/base/buffer.hpp"
#include "kernels/base/steady_clock.hpp"
#include "kernels/collective/reducer.hpp"

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace troupe {

/// One all-reduce of a group of actors. The group's actor owns all of it but
/// sum_run, which members call for ranges that do not meet.
struct CollectiveCall {
  explicit CollectiveCall(uint32_t members);

  std::vector<TensorView> values; ///< by rank
  std::vector<bool> came;
  size_t arrived = 0;
  uint64_t runs = 0; ///< not summed yet
  SteadyClock::time_point begun;

  /// Empty, or which members' vectors differ and how.
  std::string mismatch() const;
  /// "member 1, 3": who has not come.
  std::string missing() const;
  /// All have come: makes room for the sum of `count` elements.
  void prepare(uint64_t count);
  /// Writes elements [begin, end) of the sum.
  void sum_run(uint64_t begin, uint64_t end);
  TensorView sum() const { return {result_, result_->data(), count_}; }
  /// Lets go of vectors and sum; the memory stays.
  void forget();

private:
  SumProgram program_;
  std::vector<const float*> terms_; ///< in the program's order
  std::vector<uint32_t> merges_;
  uint64_t count_ = 0;
  std::shared_ptr<Buffer> result_;
  std::vector<std::shared_ptr<Buffer>> spare_; ///< some are still read
};

/// Calls that are used again, with their memory.
class CallPool {
public:
  explicit CallPool(uint32_t members) : members_(members) {}
  std::shared_ptr<CollectiveCall> take();

private:
  uint32_t members_;
  std::vector<std::shared_ptr<CollectiveCall>> calls_;
};

} // namespace troupe
