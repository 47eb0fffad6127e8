// What a peer may send over a message link. Without checksums that are right
// nothing would get past the first header, so of most inputs they are mended:
//   mode, then per frame: kind, 72 bytes of header, length of the payload, it

#include "actors/links/message_receiver.hpp"
#include "kernels/base/crc32c.hpp"
#include "tests/fuzz/input.hpp"

#include <cstring>

using namespace troupe;
using troupe::fuzz::holds;

namespace {

constexpr size_t lent_bytes = 1 << 16;
constexpr uint64_t window = 1 << 20;

void append(std::vector<std::byte>& wire, std::span<const std::byte> bytes) {
  wire.insert(wire.end(), bytes.begin(), bytes.end());
}

/// A frame whose checksums are right, whatever else is said.
void append_mended(std::vector<std::byte>& wire, fuzz::Input& input) {
  FrameHeader header;
  const auto kind = input.byte();
  header.kind = frame_kind(static_cast<MessageKind>(kind & 0x1f));
  if ((kind & 0x40) != 0)
    header.kind = lent_kind(header.kind);
  for (auto* field : {&header.job, &header.term, &header.epoch, &header.step,
                      &header.begin, &header.opaque})
    *field = input.number(8);
  for (auto* field : {&header.group, &header.bucket, &header.part})
    *field = static_cast<uint32_t>(input.number(4));
  const auto payload = std::as_bytes(input.take(input.number(2)));
  header.payload_bytes = static_cast<uint32_t>(payload.size());
  if ((kind & 0x80) != 0)
    header.payload_bytes = static_cast<uint32_t>(input.number(4));
  header.payload_crc = crc32c(0, payload.data(), payload.size());
  if (header.payload_bytes <= max_frame_payload_bytes)
    append(wire, encode_frame(header));
  append(wire, payload);
}

std::vector<std::byte> wire_of(fuzz::Input input) {
  const bool mends = (input.byte() & 1) != 0;
  std::vector<std::byte> wire;
  while (mends && !input.empty())
    append_mended(wire, input);
  append(wire, std::as_bytes(input.rest()));
  return wire;
}

/// What this process lends itself.
std::shared_ptr<const PeerMemory> peer() {
  static const auto memory = LinkMemory::make(lent_bytes);
  static const auto mapped = PeerMemory::map(memory->to_pass());
  return mapped;
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto wire = wire_of({data, size});
  static const auto memory = LinkMemory::make(lent_bytes);
  MessageReceiver::Options options;
  for (int kind = 0; kind < static_cast<int>(MessageKind::credit); ++kind)
    options.accepted.push_back(static_cast<MessageKind>(kind));
  options.peer = peer();
  options.returns = ReturnTable::make(*memory);
  uint64_t granted = window;
  std::vector<LinkMessage> got;
  MessageReceiver::Events events;
  events.arrive = [&](uint64_t bytes) {
    if (bytes > granted)
      return false;
    granted -= bytes;
    return true;
  };
  events.message = [&](LinkMessage&& message) {
    // What arrived can be sent on, and is the same message.
    const auto header = header_of(message);
    const auto again = message_of(header, values_of(message));
    holds(again && again->index() == message.index()
            && header_of(*again) == header,
          "a message survives another journey");
    got.push_back(std::move(message));
  };
  events.credit = [](uint64_t, std::optional<uint64_t>) { return true; };
  events.released = [&](uint64_t bytes) { granted += bytes; };
  MessageReceiver receiver{std::move(options), std::move(events)};
  for (std::span<const std::byte> left{wire}; !left.empty();) {
    const auto room = receiver.room();
    holds(!room.empty() && room.size() <= TensorView::max_bytes,
          "there is room, but not for anything");
    const auto count = std::min(room.size(), left.size());
    std::memcpy(room.data(), left.data(), count);
    left = left.subspan(count);
    const auto fault = receiver.filled(count);
    if (fault.empty())
      continue;
    holds(fault.find('\n') == fault.npos, "a fault is a clause");
    break;
  }
  got.clear();
  return 0;
}
