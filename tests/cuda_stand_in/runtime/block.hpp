#pragma once

#include "tests/cuda_stand_in/include/cuda_stand_in.h"
#include "tests/cuda_stand_in/runtime/memory.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <set>
#include <string>
#include <vector>

namespace cuda_stand_in {

/// What lanes of a warp give each other in one step.
struct Payload {
  uint32_t word[8];
};
enum class WarpStep : uint8_t { shuffle, vote, load_matrix, multiply };

/// A launch as it lies on a stream.
struct Kernel {
  std::string name;
  void (*run)(const void*) = nullptr;
  std::vector<std::max_align_t> arguments; ///< their bytes
  size_t argument_bytes = 0;
  dim3 grid;
  dim3 block;
  size_t shared_bytes = 0;
  uint32_t device = 0;
};

/// Runs kernels, one at a time, block by block. A thread of a block is a fibre
/// that runs until it waits: at a barrier, or for its warp. Which of those that
/// may go on does so next is drawn from a seed.
class Runner {
public:
  explicit Runner(Memory& memory);
  Runner(const Runner&) = delete;
  Runner& operator=(const Runner&) = delete;

  void seed(uint64_t value) { random_ = value * 2 + 1; }
  /// Accesses that are wrong are said, one line a kernel and kind, and done.
  void keep_going(bool keeps) { keeps_going_ = keeps; }

  /// Errors: Fault, of the first thread that does what it may not.
  void run(const Kernel& kernel);

  // -- called by the kernel's threads --
  uint3 thread_index() const;
  uint3 block_index() const { return block_; }
  const Kernel& kernel() const { return *kernel_; }
  void barrier(const char* file, int line);
  /// Waits until all lanes of the mask are at the same step. Returns their
  /// payloads [32], until the caller's next step but one.
  const Payload* exchange(WarpStep step, unsigned mask, const Payload& own,
                          const char* file, int line);
  unsigned lane_index() const;
  void* shared_memory(const void* declaration, size_t bytes, size_t alignment);
  char* dynamic_shared_memory() const { return memory_.shared(); }
  void access(const void* at, uint32_t bytes, bool writes);
  /// An access of the thread that calls was wrong.
  [[gnu::noinline, gnu::cold]] void wrong(const char* how, const void* at,
                                          uint32_t bytes);
  /// Ends the kernel with a fault of the thread that calls; says() gives the
  /// text. What it calls may be the program's, and instrumented there: nobody
  /// listens meanwhile.
  template <class Says>
  [[noreturn]] void refuse(cudaError_t status, const Says& says);

  struct Lane;

private:
  static constexpr size_t stack_bytes = size_t{128} << 10;
  struct Fibre {
    char* stack = nullptr;
    void* top = nullptr; ///< where it goes on
  };
  enum class State : uint8_t { runs, at_barrier, in_warp, left };
  /// Lanes of one mask on their way to the same step. The payloads of the step
  /// before are still read when the first ones come to the next.
  struct Gathering {
    unsigned mask = 0;
    unsigned arrived = 0;
    WarpStep step{};
    const char* file = nullptr;
    int line = 0;
    uint32_t side = 0;
    std::array<std::array<Payload, 32>, 2> payloads;
  };
  struct Warp {
    unsigned members = 0; ///< that have not left
    std::deque<Gathering> gatherings;
  };
  struct Shared {
    const void* declaration;
    size_t offset;
    bool allowed; ///< to the block that runs
  };

  void run_block(uint32_t number);
  static void enter();
  void run_lanes(Fibre& fibre);
  void leave();
  void release_barrier();
  void make_ready(Lane& lane);
  Fibre& take_fibre();
  void go_on(Fibre* from);
  [[noreturn]] void give_up(Fault fault);
  std::string waiting() const;
  std::string story(const Lane& lane, const std::string& what) const;
  uint64_t draw();

  Memory& memory_;
  uint64_t random_ = 1;
  uint32_t launch_ = 0;
  const Kernel* kernel_ = nullptr;
  uint3 block_{};
  const char* arguments_ = nullptr; ///< of the kernel
  uint32_t block_number_ = 0;
  Access block_access_ = 0; ///< of the block's thread 0, now

  std::vector<Lane> lanes_;
  std::vector<Warp> warps_;
  std::vector<uint32_t> order_; ///< in which lanes begin
  std::deque<Lane*> ready_;
  std::deque<Fibre> fibres_;
  std::vector<Fibre*> idle_;
  Fibre* starting_ = nullptr;
  void* main_ = nullptr; ///< where run_block() goes on
  uint32_t started_ = 0;
  uint32_t alive_ = 0;
  uint32_t at_barrier_ = 0;
  const char* barrier_file_ = nullptr;
  int barrier_line_ = 0;
  uint32_t barriers_ = 0;
  bool starts_first_ = true;
  std::vector<Shared> shared_;
  size_t shared_used_ = 0;
  bool failed_ = false;
  Fault fault_{};
  bool keeps_going_ = false;
  std::set<std::string> said_;
};

struct Runner::Lane {
  Runner* runner = nullptr;
  uint3 thread{};
  uint32_t index = 0;
  Fibre* fibre = nullptr;
  const char* stack = nullptr; ///< the fibre's
  State state = State::runs;
  const char* file = nullptr; ///< where it waits
  int line = 0;
  struct Copy {
    char* to;
    const void* from;
    uint32_t bytes;
    uint32_t given;
  };
  std::vector<Copy> copies; ///< that it has not waited for
};

/// The thread of a kernel that this thread of the process runs; null: the host.
extern constinit thread_local Runner::Lane* current_lane;

[[gnu::always_inline]] inline void Runner::access(const void* at,
                                                  uint32_t bytes, bool writes) {
  const auto& lane = *current_lane;
  const auto* byte = static_cast<const char*>(at);
  if (static_cast<size_t>(byte - lane.stack) < stack_bytes)
    return;
  if (!writes
      && static_cast<size_t>(byte - arguments_) < kernel_->argument_bytes)
    return;
  const auto* how = memory_.access(at, bytes, writes, kernel_->device,
                                   block_access_ | lane.index << 2);
  if (how != nullptr) [[unlikely]]
    wrong(how, at, bytes);
}

template <class Says>
void Runner::refuse(cudaError_t status, const Says& says) {
  const auto& lane = *current_lane;
  current_lane = nullptr;
  give_up({status, story(lane, says())});
}

} // namespace cuda_stand_in
