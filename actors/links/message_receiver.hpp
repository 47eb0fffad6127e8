#pragma once

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
/// memory. Used by one thread.
class MessageReceiver {
public:
  struct Options {
    std::vector<MessageKind> accepted; ///< beside credit
    size_t most_payload_bytes = TensorView::max_bytes;
    uint64_t most_idle_bytes = 0; ///< that the pool keeps
  };
  struct Events {
    /// Tells whether so many bytes were granted.
    std::function<bool(uint64_t bytes)> arrive;
    std::function<void(LinkMessage&&)> message;
    std::function<void(uint64_t total)> credit;
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
  TensorView take_view();

  Options options_;
  Events events_;
  std::shared_ptr<PayloadPool> pool_;
  FrameBytes head_;
  FrameHeader header_; ///< of the payload that is coming
  Buffer block_;
  size_t got_ = 0; ///< bytes of the header, or of the payload
  bool in_payload_ = false;
};

} // namespace troupe
