#pragma once

#include "actors/links/loans.hpp"
#include "actors/links/message_frame.hpp"
#include "actors/links/payload_pool.hpp"

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace troupe {

/// Takes frames apart as their bytes come. Payloads go straight into pooled
/// memory; those that are lent stay in the peer's. Used by one thread.
class MessageReceiver {
public:
  struct Options {
    std::vector<MessageKind> accepted; ///< beside credit
    size_t max_payload_bytes = TensorView::max_bytes;
    uint64_t max_idle_bytes = 0;              ///< that the pool keeps
    std::shared_ptr<const PeerMemory> peer{}; ///< null: it may lend nothing
    std::shared_ptr<ReturnTable> returns{};   ///< where loans are given back
  };
  struct Events {
    /// Tells whether so many bytes were granted.
    std::function<bool(uint64_t bytes)> arrive;
    std::function<void(LinkMessage&&)> message;
    /// A grant, and where the peer has its ReturnTable. Tells whether it has.
    std::function<bool(uint64_t total, std::optional<uint64_t> returns)> credit;
    /// Nobody needs so many of the bytes any more; from any thread, as long as
    /// there are views.
    std::function<void(uint64_t bytes)> released;
  };

  MessageReceiver(Options options, Events events);

  /// Where the next bytes belong; never empty.
  std::span<std::byte> room();
  /// So many bytes have been put there.
  /// Errors: one clause about the peer's fault, after which nothing may follow;
  /// else empty.
  std::string filled(size_t bytes);

private:
  std::string header_arrived();
  std::string payload_arrived();
  std::string deliver(TensorView values);
  TensorView take_view();
  /// Errors: nullopt for what is not in the peer's memory.
  std::optional<TensorView> borrow();

  Options options_;
  Events events_;
  std::shared_ptr<PayloadPool> pool_;
  FrameBytes head_;
  FrameHeader header_; ///< of the payload that is coming
  Buffer block_;
  LentBytes lent_; ///< instead, when the header says so
  size_t got_ = 0; ///< bytes of the header, or of the payload
  bool in_payload_ = false;
};

} // namespace troupe
