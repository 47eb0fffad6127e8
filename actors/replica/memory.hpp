#pragma once

#include "actors/job/job.hpp"
#include "actors/wire/messages.hpp"
#include "kernels/base/buffer.hpp"
#include "kernels/collective/shared_segment.hpp"

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

namespace troupe {

/// Flat arrays by Job::layout, 64-byte aligned, 0 at first: in this process's
/// own memory, or in a segment that other processes of the host can map. Each
/// has pages that nothing else lies in.
class FlatArrays {
public:
  FlatArrays(const Job& job, uint32_t arrays, bool shared);

  /// Takes memory of a device: [elements], 0 at first.
  using Memory = std::function<std::shared_ptr<float>(uint64_t elements)>;
  FlatArrays(const Job& job, uint32_t arrays, Memory memory);

  float* at(uint32_t array) const { return first_ + array * stride_; }
  /// An array beyond those, made when it is first asked for; in own memory
  /// only.
  float* more(uint32_t array);
  uint64_t stride() const { return stride_; } ///< elements
  /// Null: own memory.
  const SharedSegment* segment() const {
    return segment_ ? &*segment_ : nullptr;
  }

private:
  std::optional<SharedSegment> segment_;
  Buffer own_;
  std::vector<Buffer> more_;
  Memory memory_; ///< empty: of the host
  std::shared_ptr<float> taken_;
  std::vector<std::shared_ptr<float>> more_taken_;
  uint64_t stride_;
  float* first_;
};

/// Parameters and optimizer state, in one bank that is updated in place, or in
/// two by turns, so that version s stays whole while s + 1 is written, maybe by
/// others too.
class VariableBanks {
public:
  /// Holds what the job begins with.
  VariableBanks(const Job& job, std::shared_ptr<FlatArrays> arrays,
                uint32_t first, uint32_t banks);
  static uint32_t arrays_of(const Job& job, uint32_t banks);

  /// Goes back to a checkpoint; null: to version 0.
  /// Errors: InputError where it cannot be read.
  void initialise(const Job& job, const Beginning* beginning);
  /// The newest version that is whole.
  uint64_t version() const { return version_; }
  void hold(uint64_t version) { version_ = version; }

  /// Shapes: float [Job::layout.total].
  float* parameters(uint64_t version) const;
  /// Shapes: float [state_slots(), Job::layout.total], each array stride()
  /// elements after the one before.
  float* state(uint64_t version) const;
  uint64_t stride() const { return arrays_->stride(); }
  uint32_t slots() const { return slots_; } ///< of state
  /// Parameters first, then each slot of state.
  std::vector<float*> all(uint64_t version) const;
  std::shared_ptr<const FlatArrays> arrays() const { return arrays_; }

private:
  std::shared_ptr<FlatArrays> arrays_;
  uint32_t first_;
  uint32_t banks_;
  uint32_t slots_;
  std::atomic<uint64_t> version_{0};
};

enum class SnapshotMemory {
  copied,
  lent, ///< nobody writes to these arrays any more
};

/// These slices of a version that is held whole, which `updates` have made.
std::vector<SnapshotSlice>
snapshot_of(const Job& job, uint64_t job_id, const VariableBanks& variables,
            uint64_t version, uint64_t updates,
            const std::vector<uint32_t>& slices,
            SnapshotMemory memory = SnapshotMemory::copied);

} // namespace troupe
