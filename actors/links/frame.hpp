#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace troupe {

/// What a frame is for. Below 64: collectives; from 64 on: messages, numbered
/// where they are sent.
enum class FrameKind : uint16_t {
  contribution = 1, ///< addends of a run, to whom sums it
  sum = 2,          ///< what became of a run: to everybody
  transfer = 3,     ///< a transfer of a schedule
  whole = 4,        ///< the sender has the whole result of the step
  farewell = 5,     ///< the sender ends; the payload says why
  message = 64,
};

/// What stands before every payload on a link. PROTOCOL 14 and 20: delivery is
/// fenced by (job, term, epoch), a collective is named (group, step, bucket).
struct FrameHeader {
  FrameKind kind = FrameKind::message;
  uint64_t job = 0;
  uint64_t term = 0;
  uint64_t epoch = 0;
  uint64_t step = 0;
  uint64_t begin = 0;  ///< of the run: elements
  uint64_t opaque = 0; ///< the kind's own; a digest of the layout, say
  uint32_t group = 0;
  uint32_t bucket = 0;
  uint32_t part = 0; ///< of several frames or arrays, which
  uint32_t payload_bytes = 0;
  uint32_t payload_crc = 0; ///< crc32c

  friend bool operator==(const FrameHeader&, const FrameHeader&) = default;
};

constexpr uint32_t frame_magic = 0x4b4c5254; ///< "TRLK" on the wire
constexpr uint16_t frame_version = 1;
constexpr size_t frame_header_bytes = 80;
/// No payload is longer: who says so is refused before anything is allocated.
constexpr uint32_t max_frame_payload_bytes = 64u << 20;

/// How it stands on the wire, little-endian: magic u32, version u16, kind u16,
/// job, term, epoch, step, begin, opaque u64 each, group, bucket, part, payload
/// bytes, payload crc32c u32 each, crc32c u32 of the 76 bytes before.
using FrameBytes = std::array<std::byte, frame_header_bytes>;

/// The payload is at most max_frame_payload_bytes.
FrameBytes encode_frame(const FrameHeader& header);

enum class FrameFault : uint8_t {
  none,
  foreign,  ///< not a frame: another magic number
  version,  ///< of another build
  damaged,  ///< the header's checksum is wrong
  kind,     ///< an unknown kind
  too_long, ///< the payload exceeds max_frame_payload_bytes
  payload,  ///< the payload's checksum is wrong
};

/// A header taken apart, or why it is none.
struct DecodedFrame {
  FrameFault fault = FrameFault::none;
  FrameHeader header; ///< when there is no fault
};

/// Errors: a fault, of the header alone; the payload has not come yet.
DecodedFrame decode_frame(std::span<const std::byte, frame_header_bytes> bytes);

/// One clause about the fault, for a message that names the peer before it.
std::string to_string(FrameFault fault);

} // namespace troupe
