#include "actors/links/frame.hpp"

#include "kernels/base/crc32c.hpp"
#include "kernels/base/require.hpp"

#include <bit>
#include <cstring>

namespace troupe {

namespace {

static_assert(std::endian::native == std::endian::little);

/// Visits the fields in the order of the wire; `field` moves one on.
template <class Header, class Field>
void for_each_field(Header& header, Field field) {
  field(header.kind);
  field(header.job);
  field(header.term);
  field(header.epoch);
  field(header.step);
  field(header.begin);
  field(header.opaque);
  field(header.group);
  field(header.bucket);
  field(header.part);
  field(header.payload_bytes);
  field(header.payload_crc);
}

constexpr size_t covered_bytes = frame_header_bytes - sizeof(uint32_t);

template <class T>
T read(const std::byte* at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

bool known(FrameKind kind) {
  return kind >= FrameKind::message
         || (kind >= FrameKind::contribution && kind <= FrameKind::farewell);
}

} // namespace

FrameBytes encode_frame(const FrameHeader& header) {
  kernels::require(header.payload_bytes <= max_frame_payload_bytes,
                   "a frame's payload beyond the limit");
  FrameBytes bytes;
  auto* at = bytes.data();
  auto put = [&](const auto& value) {
    std::memcpy(at, &value, sizeof value);
    at += sizeof value;
  };
  put(frame_magic);
  put(frame_version);
  for_each_field(header, put);
  put(crc32c(0, bytes.data(), covered_bytes));
  kernels::require(at == bytes.data() + bytes.size(), "a frame's layout");
  return bytes;
}

DecodedFrame
decode_frame(std::span<const std::byte, frame_header_bytes> bytes) {
  const auto* at = bytes.data();
  if (read<uint32_t>(at) != frame_magic)
    return {FrameFault::foreign, {}};
  at += sizeof frame_magic;
  // Before the checksum: another version may lay it out otherwise.
  if (read<uint16_t>(at) != frame_version)
    return {FrameFault::version, {}};
  at += sizeof frame_version;
  if (read<uint32_t>(bytes.data() + covered_bytes)
      != crc32c(0, bytes.data(), covered_bytes))
    return {FrameFault::damaged, {}};
  DecodedFrame result;
  for_each_field(result.header, [&](auto& value) {
    std::memcpy(&value, at, sizeof value);
    at += sizeof value;
  });
  if (!known(result.header.kind))
    return {FrameFault::kind, {}};
  if (result.header.payload_bytes > max_frame_payload_bytes)
    return {FrameFault::too_long, {}};
  return result;
}

std::string to_string(FrameFault fault) {
  switch (fault) {
    case FrameFault::none:
      return "no fault";
    case FrameFault::foreign:
      return "sent something that is no frame of this protocol";
    case FrameFault::version:
      return "sent a frame of another version of the protocol";
    case FrameFault::damaged:
      return "sent a frame whose header was damaged on the way (crc32c)";
    case FrameFault::kind:
      return "sent a frame of an unknown kind";
    case FrameFault::too_long:
      return "announced a payload beyond "
             + std::to_string(max_frame_payload_bytes >> 20) + " MiB";
    case FrameFault::payload:
      return "sent a payload that was damaged on the way (crc32c)";
  }
  return "unknown fault";
}

} // namespace troupe
