#pragma once

#include "actors/links/link_memory.hpp"

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

namespace troupe {

/// What stands in a frame instead of a tensor that lies in shared memory.
struct LentTensor {
  MemoryPlace place;
  uint64_t loan = 0; ///< counted from 1
  uint32_t slot = 0; ///< of the receiver's table
};

/// How it stands on the wire, little-endian: offset, loan u64, segment, slot
/// u32.
using LentBytes = std::array<std::byte, 24>;
LentBytes encode_lent(const LentTensor& lent);
LentTensor decode_lent(std::span<const std::byte, 24> bytes);

/// One word a slot: the loan that was given back last. Whoever borrows writes
/// it, in memory of its own; whoever lent reads it.
class ReturnTable {
public:
  static constexpr uint32_t slots = 1024;
  static constexpr size_t bytes = slots * sizeof(uint64_t);

  /// Errors: null when there is no memory left.
  static std::shared_ptr<ReturnTable> make(LinkMemory& memory);

  void give_back(uint32_t slot, uint64_t loan);
  uint64_t offset() const { return offset_; } ///< in the first segment

private:
  ReturnTable() = default;

  std::shared_ptr<float> memory_;
  std::atomic<uint64_t>* returned_ = nullptr;
  uint64_t offset_ = 0;
};

/// The lender's side: tensors stay until the peer has given them back. Used
/// under the caller's lock.
class Loans {
public:
  /// Smaller ones are sent: that costs less than a loan.
  static constexpr size_t min_bytes = 4096;

  Loans() = default;
  explicit Loans(std::shared_ptr<LinkMemory> own) : own_(std::move(own)) {}

  /// From here on there are loans: the peer has its table at `offset`.
  /// Errors: false when that is not in the peer's memory.
  bool open(std::shared_ptr<const PeerMemory> peer, uint64_t offset);
  /// Lends the tensor of a message with that fence, and takes it over.
  /// Errors: nullopt, and nothing taken: it is to be sent.
  std::optional<LentTensor> lend(const Fence& fence, TensorView& values);
  /// Moves what has been given back to `done`.
  void reclaim(std::vector<TensorView>& done);
  /// All that has not been given back; nothing is lent any more.
  std::vector<LentView> close();

private:
  struct Loan {
    LentView lent;
    uint64_t number = 0; ///< 0: the slot is free
  };

  std::shared_ptr<LinkMemory> own_;
  std::shared_ptr<const PeerMemory> peer_;
  const std::atomic<uint64_t>* returned_ = nullptr; ///< null: not open
  std::vector<Loan> loans_;
  std::vector<uint32_t> free_;
  std::vector<uint32_t> lent_;
  uint64_t last_ = 0;
};

} // namespace troupe
