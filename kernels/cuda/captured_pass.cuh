#pragma once

#include "kernels/cuda/context.cuh"

#include <cstdint>
#include <functional>
#include <map>
#include <vector>

namespace troupe::kernels {

/// Work on a context's stream that is recorded once and then replayed as a CUDA
/// graph. The first call with a key runs the work itself: libraries choose
/// their algorithms and load their kernels then, which a recording must not;
/// the second records it. Work that happens once is never recorded.
class CapturedPasses {
public:
  CapturedPasses(CudaContext& context, bool records)
    : context_(context), records_(records) {}
  CapturedPasses(const CapturedPasses&) = delete;
  CapturedPasses& operator=(const CapturedPasses&) = delete;
  ~CapturedPasses();

  using Key = std::vector<uint64_t>;
  /// `work` depends on the key alone, but for the contents of memory.
  void run(const Key& key, const std::function<void()>& work);

private:
  /// Graphs kept: a job has two or three shapes of micro-batch, and a resident
  /// replica as many places for a gradient as the tree of its leaves is deep.
  static constexpr size_t most = 64;

  struct Entry {
    cudaGraphExec_t graph = nullptr;
    uint64_t used = 0;
  };
  void record(Entry& entry, const std::function<void()>& work);
  void drop_oldest();

  CudaContext& context_;
  bool records_;
  uint64_t calls_ = 0;
  std::map<Key, Entry> entries_;
};

} // namespace troupe::kernels
