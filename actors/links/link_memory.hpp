#pragma once

#include "actors/sockets/descriptor.hpp"
#include "actors/wire/messages/fields.hpp"
#include "actors/wire/tensor_view.hpp"
#include "kernels/collective/shared_segment.hpp"

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

namespace troupe {

/// Where something lies in the memory that a process shares.
struct MemoryPlace {
  uint32_t segment = 0; ///< in the order in which they were passed
  uint64_t offset = 0;  ///< bytes
};

/// A tensor that a peer was lent, and in which epoch.
struct LentView {
  Fence fence;
  TensorView values;
};

/// Memory of this process that its peers on the same host map, read-only: a
/// tensor in it is lent to them where it lies instead of being sent. All calls
/// are thread-safe.
class LinkMemory : public std::enable_shared_from_this<LinkMemory> {
public:
  static constexpr size_t usual_bytes = size_t{32} << 30;

  /// Reserves addresses; pages come with their first use.
  /// Errors: null where the system refuses: then tensors are sent.
  static std::shared_ptr<LinkMemory> make(size_t bytes = usual_bytes);

  /// Memory for `count` values, aligned to 64 bytes, not initialised; it is
  /// used again when nobody has it any more.
  /// Errors: null when all is taken.
  std::shared_ptr<float> take(size_t count);
  /// A view of a copy of `values`, in this memory if there is any left.
  TensorView copy(std::span<const float> values);

  /// Shares memory that is the file `descriptor` from its beginning, and seals
  /// that against shrinking; a second one takes the place of the first.
  /// Errors: false where it cannot be sealed: it is not shared then.
  bool add(const std::byte* first, size_t bytes, int descriptor);

  /// What a peer is to be passed, at most two.
  std::vector<Descriptor> to_pass() const;
  /// Errors: nullopt for what is not shared as a whole.
  std::optional<MemoryPlace> find(const void* first, size_t bytes) const;

  /// Holds what the peer of a link that has ended may still be reading.
  void keep(std::vector<LentView> lent);
  /// All members have sealed for the epoch of `begun`: nobody reads what was
  /// lent in those before it.
  void let_go(const Fence& begun);

private:
  struct Shared {
    const std::byte* first = nullptr;
    size_t bytes = 0;
    Descriptor descriptor;
  };

  explicit LinkMemory(size_t bytes);
  void give_back(float* values, size_t size);

  SharedSegment arena_;
  mutable std::mutex mutex_;
  std::map<size_t, std::vector<float*>> idle_; ///< by elements
  std::optional<Shared> added_;
  std::vector<LentView> kept_;
};

/// What a peer passed, mapped read-only.
class PeerMemory {
public:
  /// Errors: null when nothing was passed, or something that could shrink or
  /// cannot be mapped.
  static std::shared_ptr<const PeerMemory> map(std::vector<Descriptor> passed);
  ~PeerMemory();
  PeerMemory(const PeerMemory&) = delete;
  PeerMemory& operator=(const PeerMemory&) = delete;

  /// Errors: null for what is not there as a whole, or not aligned to values.
  const std::byte* at(const MemoryPlace& place, size_t bytes) const;

private:
  PeerMemory() = default;

  struct Mapped {
    std::byte* first = nullptr;
    size_t bytes = 0;
  };
  std::vector<Mapped> segments_;
};

} // namespace troupe
