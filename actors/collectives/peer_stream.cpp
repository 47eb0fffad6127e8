#include "actors/collectives/peer_stream.hpp"

#include "kernels/base/crc32c.hpp"
#include "kernels/base/require.hpp"

#include <algorithm>

namespace troupe {

PeerStream::PeerStream(std::unique_ptr<LinkSocket> socket)
  : socket_(std::move(socket)) {}

void PeerStream::post(FrameHeader header, const void* payload) {
  kernels::require(free(), "a frame before the last one is sent");
  out_payload_ = static_cast<const std::byte*>(payload);
  out_payload_bytes_ = header.payload_bytes;
  header.payload_crc = crc32c(0, payload, out_payload_bytes_);
  out_header_ = encode_frame(header);
  unsent_ = out_header_.size() + out_payload_bytes_;
}

bool PeerStream::push() {
  if (unsent_ == 0 || deaf_)
    return false;
  iovec pieces[2];
  size_t count = 0;
  if (unsent_ > out_payload_bytes_) {
    const auto left = unsent_ - out_payload_bytes_;
    pieces[count++] = {out_header_.data() + out_header_.size() - left, left};
  }
  const auto left = std::min(unsent_, out_payload_bytes_);
  if (left > 0)
    pieces[count++] = {
      const_cast<std::byte*>(out_payload_) + out_payload_bytes_ - left, left};
  const auto io = socket_->send({pieces, count});
  unsent_ -= io.bytes;
  deaf_ = io.down;
  return io.bytes > 0;
}

const FrameHeader* PeerStream::announced() const {
  return stage_ == Stage::announced ? &in_header_ : nullptr;
}

void PeerStream::accept(void* place) {
  kernels::require(stage_ == Stage::announced, "a place without a payload");
  place_ = static_cast<std::byte*>(place);
  got_ = 0;
  crc_ = 0;
  stage_ = in_header_.payload_bytes > 0 ? Stage::payload : Stage::arrived;
}

bool PeerStream::pull() {
  if (!fault_.empty() || stage_ == Stage::announced || stage_ == Stage::arrived)
    return false;
  const bool header = stage_ == Stage::header;
  auto* into = header ? in_bytes_.data() : place_;
  const size_t whole = header ? in_bytes_.size() : in_header_.payload_bytes;
  const auto io = socket_->receive(into + got_, whole - got_);
  if (io.down)
    fault_ = "is gone";
  if (!header)
    crc_ = crc32c(crc_, into + got_, io.bytes); // while it is in the cache
  got_ += io.bytes;
  if (got_ < whole)
    return io.bytes > 0;
  got_ = 0;
  if (header) {
    const auto decoded = decode_frame(in_bytes_);
    if (decoded.fault != FrameFault::none)
      fault_ = to_string(decoded.fault);
    in_header_ = decoded.header;
    stage_ = Stage::announced;
  } else {
    if (crc_ != in_header_.payload_crc)
      fault_ = to_string(FrameFault::payload);
    stage_ = Stage::arrived;
  }
  return true;
}

} // namespace troupe
