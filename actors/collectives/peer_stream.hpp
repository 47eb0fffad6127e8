#pragma once

#include "actors/links/frame.hpp"
#include "actors/sockets/socket.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

namespace troupe {

/// The frames between a member and one peer: one at a time on its way out, one
/// on its way in. Payloads go from and to the caller's memory; nothing waits.
///
/// Rejected: lending pages to the kernel (vmsplice, splice) instead of having
/// them copied. 16 MiB between two over loopback take 10-12 % less on a Xeon,
/// but 40 % more on an EPYC.
class PeerStream {
public:
  explicit PeerStream(std::unique_ptr<LinkSocket> socket);

  /// Nothing is on its way out: a frame may be posted.
  bool free() const { return unsent_ == 0; }
  /// Sends a frame: fills in the payload's checksum. The payload stays as it is
  /// until free().
  void post(FrameHeader header, const void* payload);
  /// Sends what fits now. Tells whether anything went.
  bool push();

  /// The header that came, if its payload has no place yet.
  const FrameHeader* announced() const;
  /// Gives the announced payload its place, payload_bytes long.
  void accept(void* place);
  /// The accepted payload is there, its checksum is right.
  bool arrived() const { return stage_ == Stage::arrived; }
  /// Goes on to the next frame.
  void release() { stage_ = Stage::header; }
  /// Receives what is there now, up to the end of a header or payload. Tells
  /// whether anything came.
  bool pull();

  /// Why the stream is over, a clause with the peer as its subject; empty: it
  /// is not.
  const std::string& fault() const { return fault_; }
  /// The peer takes nothing more; what it has sent can still be read.
  bool deaf() const { return deaf_; }
  /// Ends the stream, for the peer too; from any thread.
  void cut() { socket_->cut(); }

  int descriptor() const { return socket_->descriptor(); }

  /// Whether pull() is worth trying: kept by the collective, for waiting.
  bool wanted = false;

private:
  enum class Stage : uint8_t { header, announced, payload, arrived };

  void begin_payload();

  std::unique_ptr<LinkSocket> socket_;
  std::string fault_;
  bool deaf_ = false;

  FrameBytes out_header_{};
  const std::byte* out_payload_ = nullptr;
  size_t out_payload_bytes_ = 0;
  size_t unsent_ = 0;

  Stage stage_ = Stage::header;
  FrameBytes in_bytes_{};
  FrameHeader in_header_;
  std::byte* place_ = nullptr;
  size_t got_ = 0; ///< bytes of the header or payload
  uint32_t crc_ = 0;
};

} // namespace troupe
