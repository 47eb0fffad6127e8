#include "actors/links/message_receiver.hpp"

#include "actors/links/message_sender.hpp"
#include "kernels/base/crc32c.hpp"

#include <algorithm>
#include <utility>

namespace troupe {

MessageReceiver::MessageReceiver(Options options, Events events)
  : options_(std::move(options)),
    events_(std::move(events)),
    pool_(std::make_shared<PayloadPool>(options_.max_idle_bytes)) {}

std::span<std::byte> MessageReceiver::room() {
  if (!in_payload_)
    return std::span{head_}.subspan(got_);
  if (is_lent(header_.kind))
    return std::span{lent_}.subspan(got_);
  auto* first = reinterpret_cast<std::byte*>(block_.data());
  return {first + got_, header_.payload_bytes - got_};
}

std::string MessageReceiver::filled(size_t bytes) {
  got_ += bytes;
  const auto whole = !in_payload_            ? head_.size()
                     : is_lent(header_.kind) ? lent_.size()
                                             : size_t{header_.payload_bytes};
  if (got_ < whole)
    return {};
  got_ = 0;
  return in_payload_ ? payload_arrived() : header_arrived();
}

std::string MessageReceiver::header_arrived() {
  auto [fault, header] = decode_frame(head_);
  if (fault != FrameFault::none)
    return to_string(fault);
  const auto kind = message_kind(header.kind);
  if (kind == MessageKind::credit && header.payload_bytes == 0) {
    std::optional<uint64_t> returns;
    if (header.part != 0)
      returns = header.begin;
    if (is_lent(header.kind) || !events_.credit(header.opaque, returns))
      return "granted what makes no sense";
    return {};
  }
  const auto& known = options_.accepted;
  if (!kind || std::find(known.begin(), known.end(), *kind) == known.end())
    return "sent a frame that is no message for this role";
  if (header.payload_bytes > options_.max_payload_bytes
      || header.payload_bytes % sizeof(float) != 0)
    return "announced a tensor of " + std::to_string(header.payload_bytes)
           + " bytes";
  const bool lent = is_lent(header.kind);
  if (lent
      && (!options_.peer || !options_.returns || header.payload_bytes == 0))
    return "lent a tensor, though it shares no memory";
  if (!events_.arrive(frame_bytes(header)))
    return "sent more than it was granted";
  header_ = header;
  if (header.payload_bytes == 0)
    return payload_arrived();
  if (!lent)
    block_ = pool_->take(header.payload_bytes / sizeof(float));
  in_payload_ = true;
  return {};
}

std::string MessageReceiver::payload_arrived() {
  in_payload_ = false;
  if (!is_lent(header_.kind)) {
    if (crc32c(0, block_.data(), header_.payload_bytes) != header_.payload_crc)
      return to_string(FrameFault::payload);
    return deliver(take_view());
  }
  if (crc32c(0, lent_.data(), lent_.size()) != header_.payload_crc)
    return to_string(FrameFault::payload);
  auto values = borrow();
  if (!values)
    return "lent a tensor that is not in its memory";
  return deliver(std::move(*values));
}

std::string MessageReceiver::deliver(TensorView values) {
  auto message = message_of(header_, std::move(values));
  if (!message)
    return "sent a message that makes no sense";
  events_.message(std::move(*message));
  return {};
}

/// The view's end gives the block back to the pool and its bytes to the peer.
TensorView MessageReceiver::take_view() {
  const auto count = header_.payload_bytes / sizeof(float);
  if (count == 0) {
    events_.released(frame_bytes(header_));
    return {};
  }
  struct Held {
    Held(Buffer block, std::shared_ptr<PayloadPool> pool,
         std::function<void(uint64_t)> released, uint64_t bytes)
      : block(std::move(block)),
        pool(std::move(pool)),
        released(std::move(released)),
        bytes(bytes) {}
    Held(const Held&) = delete;
    Held& operator=(const Held&) = delete;
    ~Held() {
      pool->give(std::move(block));
      released(bytes);
    }
    Buffer block;
    std::shared_ptr<PayloadPool> pool;
    std::function<void(uint64_t)> released;
    uint64_t bytes;
  };
  auto held = std::make_shared<Held>(std::exchange(block_, {}), pool_,
                                     events_.released, frame_bytes(header_));
  const auto* first = held->block.data();
  return {std::move(held), first, count};
}

/// The view's end tells the lender, and gives the bytes back to the peer.
std::optional<TensorView> MessageReceiver::borrow() {
  const auto lent = decode_lent(lent_);
  const auto* first = options_.peer->at(lent.place, header_.payload_bytes);
  if (first == nullptr || lent.slot >= ReturnTable::slots)
    return std::nullopt;
  struct Borrowed {
    Borrowed(std::shared_ptr<const PeerMemory> memory,
             std::shared_ptr<ReturnTable> returns, const LentTensor& lent,
             std::function<void(uint64_t)> released, uint64_t bytes)
      : memory(std::move(memory)),
        returns(std::move(returns)),
        lent(lent),
        released(std::move(released)),
        bytes(bytes) {}
    Borrowed(const Borrowed&) = delete;
    Borrowed& operator=(const Borrowed&) = delete;
    ~Borrowed() {
      returns->give_back(lent.slot, lent.loan);
      released(bytes);
    }
    std::shared_ptr<const PeerMemory> memory;
    std::shared_ptr<ReturnTable> returns;
    LentTensor lent;
    std::function<void(uint64_t)> released;
    uint64_t bytes;
  };
  auto borrowed = std::make_shared<Borrowed>(options_.peer, options_.returns,
                                             lent, events_.released,
                                             frame_bytes(header_));
  return TensorView{std::move(borrowed), reinterpret_cast<const float*>(first),
                    header_.payload_bytes / sizeof(float)};
}

} // namespace troupe
