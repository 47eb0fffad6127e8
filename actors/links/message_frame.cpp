#include "actors/links/message_frame.hpp"

#include <bit>

namespace troupe {
namespace {

constexpr auto first_kind = static_cast<uint16_t>(FrameKind::message);
constexpr uint16_t lent_flag = 1 << 15;

FrameHeader begin(MessageKind kind, const Fence& fence, const TensorView& x) {
  FrameHeader header;
  header.kind = frame_kind(kind);
  header.job = fence.job;
  header.term = fence.term;
  header.epoch = fence.epoch;
  header.payload_bytes = static_cast<uint32_t>(x.size() * sizeof(float));
  return header;
}

FrameHeader write(const Pull& x) {
  auto header = begin(MessageKind::pull, x.fence, {});
  header.step = x.version;
  header.group = static_cast<uint32_t>(x.worker.kind);
  header.part = x.worker.index;
  return header;
}

FrameHeader write(const Pulled& x) {
  auto header = begin(MessageKind::pulled, x.fence, x.values);
  header.step = x.version;
  header.bucket = x.slice;
  return header;
}

FrameHeader write(const Push& x) {
  auto header = begin(MessageKind::push, x.fence, x.values);
  header.step = x.step;
  header.group = x.node.lo;
  header.part = x.node.hi;
  header.bucket = x.slice;
  return header;
}

FrameHeader write(const LeasePush& x) {
  auto header = begin(MessageKind::lease_push, x.fence, x.values);
  header.step = x.lease;
  header.begin = x.pulled_version;
  header.bucket = x.slice;
  header.part = std::bit_cast<uint32_t>(x.scale.value);
  return header;
}

const TensorView& payload(const Pull&) {
  static const TensorView none;
  return none;
}

template <class Message>
const TensorView& payload(const Message& x) {
  return x.values;
}

} // namespace

FrameKind frame_kind(MessageKind kind) {
  return static_cast<FrameKind>(first_kind + static_cast<uint16_t>(kind));
}

FrameKind lent_kind(FrameKind kind) {
  return static_cast<FrameKind>(static_cast<uint16_t>(kind) | lent_flag);
}

bool is_lent(FrameKind kind) {
  return (static_cast<uint16_t>(kind) & lent_flag) != 0;
}

std::optional<MessageKind> message_kind(FrameKind kind) {
  const auto number =
    static_cast<uint16_t>(static_cast<uint16_t>(kind) & ~lent_flag);
  constexpr auto count = static_cast<uint16_t>(MessageKind::credit) + 1;
  if (number < first_kind || number >= first_kind + count)
    return std::nullopt;
  return static_cast<MessageKind>(number - first_kind);
}

FrameHeader header_of(const LinkMessage& message) {
  return std::visit([](const auto& x) { return write(x); }, message);
}

const TensorView& values_of(const LinkMessage& message) {
  return std::visit(
    [](const auto& x) -> const TensorView& { return payload(x); }, message);
}

std::optional<LinkMessage> message_of(const FrameHeader& x, TensorView values) {
  const Fence fence{x.job, x.term, x.epoch};
  switch (message_kind(x.kind).value_or(MessageKind::credit)) {
    case MessageKind::pull: {
      const RoleId worker{static_cast<RoleKind>(x.group), x.part};
      if (x.group > static_cast<uint32_t>(RoleKind::evaluator)
          || values.size() != 0)
        return std::nullopt;
      return Pull{fence, worker, x.step};
    }
    case MessageKind::pulled:
      return Pulled{fence, x.step, x.bucket, std::move(values)};
    case MessageKind::push:
      return Push{
        fence, x.step, {x.group, x.part}, x.bucket, std::move(values)};
    case MessageKind::lease_push:
      return LeasePush{fence,
                       x.step,
                       x.bucket,
                       x.begin,
                       std::move(values),
                       std::bit_cast<float>(x.part)};
    case MessageKind::credit:
      break;
  }
  return std::nullopt;
}

FrameHeader credit_header(uint64_t total, std::optional<uint64_t> returns) {
  FrameHeader header;
  header.kind = frame_kind(MessageKind::credit);
  header.opaque = total;
  header.part = returns ? 1 : 0;
  header.begin = returns.value_or(0);
  return header;
}

} // namespace troupe
