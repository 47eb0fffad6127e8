#include "actors/links/loans.hpp"

#include <algorithm>
#include <cstring>
#include <new>
#include <utility>

namespace troupe {
namespace {

static_assert(std::atomic<uint64_t>::is_always_lock_free);

/// Visits the fields in the order of the wire.
template <class Lent, class Field>
void for_each_field(Lent& lent, Field field) {
  field(lent.place.offset);
  field(lent.loan);
  field(lent.place.segment);
  field(lent.slot);
}

} // namespace

LentBytes encode_lent(const LentTensor& lent) {
  LentBytes bytes;
  auto* at = bytes.data();
  for_each_field(lent, [&](const auto& value) {
    std::memcpy(at, &value, sizeof value);
    at += sizeof value;
  });
  return bytes;
}

LentTensor decode_lent(std::span<const std::byte, 24> bytes) {
  LentTensor lent;
  const auto* at = bytes.data();
  for_each_field(lent, [&](auto& value) {
    std::memcpy(&value, at, sizeof value);
    at += sizeof value;
  });
  return lent;
}

std::shared_ptr<ReturnTable> ReturnTable::make(LinkMemory& memory) {
  std::shared_ptr<ReturnTable> table{new ReturnTable};
  table->memory_ = memory.take(bytes / sizeof(float));
  if (!table->memory_)
    return nullptr;
  table->offset_ = memory.find(table->memory_.get(), bytes)->offset;
  auto* first = reinterpret_cast<std::atomic<uint64_t>*>(table->memory_.get());
  for (uint32_t i = 0; i < slots; ++i)
    new (first + i) std::atomic<uint64_t>{0};
  table->returned_ = first;
  return table;
}

void ReturnTable::give_back(uint32_t slot, uint64_t loan) {
  returned_[slot].store(loan, std::memory_order_release);
}

bool Loans::open(std::shared_ptr<const PeerMemory> peer, uint64_t offset) {
  if (returned_ != nullptr || !own_)
    return true;
  const auto* table = peer && offset % sizeof(uint64_t) == 0
                        ? peer->at({0, offset}, ReturnTable::bytes)
                        : nullptr;
  if (table == nullptr)
    return false;
  returned_ = reinterpret_cast<const std::atomic<uint64_t>*>(table);
  peer_ = std::move(peer);
  loans_.resize(ReturnTable::slots);
  for (auto slot = ReturnTable::slots; slot > 0; --slot)
    free_.push_back(slot - 1);
  return true;
}

std::optional<LentTensor> Loans::lend(const Fence& fence, TensorView& values) {
  const auto bytes = values.size() * sizeof(float);
  if (returned_ == nullptr || free_.empty() || bytes < min_bytes)
    return std::nullopt;
  const auto place = own_->find(values.data(), bytes);
  if (!place)
    return std::nullopt;
  const auto slot = free_.back();
  free_.pop_back();
  lent_.push_back(slot);
  loans_[slot] = {{fence, std::exchange(values, {})}, ++last_};
  return LentTensor{*place, last_, slot};
}

void Loans::reclaim(std::vector<TensorView>& done) {
  std::erase_if(lent_, [&](uint32_t slot) {
    auto& loan = loans_[slot];
    if (returned_[slot].load(std::memory_order_acquire) != loan.number)
      return false;
    done.push_back(std::exchange(loan.lent.values, {}));
    free_.push_back(slot);
    return true;
  });
}

std::vector<LentView> Loans::close() {
  std::vector<LentView> all;
  for (auto slot : std::exchange(lent_, {}))
    all.push_back(std::move(loans_[slot].lent));
  returned_ = nullptr;
  own_ = nullptr;
  peer_ = nullptr;
  return all;
}

} // namespace troupe
