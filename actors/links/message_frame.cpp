#include "actors/links/message_frame.hpp"

#include <bit>
#include <cstring>

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

/// Numbers as they lie in memory.
template <class Number>
TensorView raw(const std::vector<Bits<Number>>& numbers) {
  std::vector<float> bytes(numbers.size() * sizeof(Number) / sizeof(float));
  if (!bytes.empty())
    std::memcpy(bytes.data(), numbers.data(), numbers.size() * sizeof(Number));
  return TensorView::copy(bytes);
}

template <class Number>
std::optional<std::vector<Bits<Number>>> numbers_in(const TensorView& raw) {
  const auto bytes = raw.size() * sizeof(float);
  if (bytes % sizeof(Number) != 0)
    return std::nullopt;
  std::vector<Bits<Number>> numbers(bytes / sizeof(Number));
  if (bytes > 0)
    std::memcpy(static_cast<void*>(numbers.data()), raw.data(), bytes);
  return numbers;
}

TensorView payload(const Pull&) {
  return {};
}
TensorView payload(const ChainJoin&) {
  return {};
}
TensorView payload(const ScalarsHeld&) {
  return {};
}
TensorView payload(const AskShares&) {
  return {};
}
TensorView payload(const StepShares& x) {
  std::vector<float> bounds;
  for (auto share : x.shares) {
    bounds.push_back(std::bit_cast<float>(share.lo));
    bounds.push_back(std::bit_cast<float>(share.hi));
  }
  return TensorView::copy(bounds);
}

std::vector<RankRange> ranges_in(const TensorView& bounds) {
  std::vector<RankRange> ranges;
  for (size_t i = 0; i + 1 < bounds.size(); i += 2)
    ranges.push_back({std::bit_cast<uint32_t>(bounds.data()[i]),
                      std::bit_cast<uint32_t>(bounds.data()[i + 1])});
  return ranges;
}
TensorView payload(const RowPull& x) {
  return x.ids;
}
TensorView payload(const RowsWanted& x) {
  return x.samples;
}
TensorView payload(const BlockSums& x) {
  return raw(x.sums);
}
TensorView payload(const Scalars& x) {
  return raw(x.values);
}
TensorView payload(const ChainScalars& x) {
  return raw(x.values);
}

template <class Message>
TensorView payload(const Message& x) {
  return x.values;
}

FrameHeader write(const Pull& x) {
  auto header = begin(MessageKind::pull, x.fence, {});
  header.step = x.version;
  header.group = static_cast<uint32_t>(x.worker.kind);
  header.part = x.worker.index;
  header.bucket = x.slice;
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

FrameHeader write(const RowPull& x) {
  auto header = begin(MessageKind::row_pull, x.fence, x.ids);
  header.step = x.version;
  header.group = static_cast<uint32_t>(x.worker.kind);
  header.part = x.worker.index;
  header.bucket = x.slice;
  return header;
}

template <class Message>
FrameHeader write_round(MessageKind kind, const Message& x) {
  auto header = begin(kind, x.fence, payload(x));
  header.step = x.step;
  header.group = x.round;
  return header;
}

FrameHeader write(const BlockSums& x) {
  auto header = write_round(MessageKind::block_sums, x);
  header.bucket = x.slice;
  return header;
}

FrameHeader write(const Scalars& x) {
  return write_round(MessageKind::scalars, x);
}

FrameHeader write(const ChainJoin& x) {
  auto header = begin(MessageKind::chain_join, x.fence, {});
  header.step = x.version;
  header.begin = x.epoch;
  header.group = x.whole ? 1 : 0;
  header.bucket = x.slice;
  header.part = x.follower.index;
  return header;
}

FrameHeader write(const SliceCopy& x) {
  auto header = begin(MessageKind::slice_copy, x.fence, x.values);
  header.step = x.version;
  header.begin = x.more ? 1 : 0;
  header.group = x.parts;
  header.bucket = x.slice;
  header.part = x.part;
  return header;
}

FrameHeader write(const ChainUpdate& x) {
  auto header = begin(MessageKind::chain_update, x.fence, x.values);
  header.step = x.number;
  header.begin = x.lease;
  header.group = x.samples * 2 + (x.again ? 1 : 0);
  header.bucket = x.slice;
  header.part = std::bit_cast<uint32_t>(x.gradient_scale.value);
  header.opaque = std::bit_cast<uint32_t>(x.trust_ratio.value)
                  | uint64_t{std::bit_cast<uint32_t>(x.rate_scale.value)} << 32;
  return header;
}

FrameHeader write(const ChainScalars& x) {
  return write_round(MessageKind::chain_scalars, x);
}

FrameHeader write(const AskShares& x) {
  return begin(MessageKind::ask_shares, x.fence, {});
}

FrameHeader write(const StepShares& x) {
  auto header = begin(MessageKind::step_shares, x.fence, payload(x));
  header.step = x.step;
  return header;
}

FrameHeader write(const StageValues& x) {
  auto header = begin(MessageKind::stage_values, x.fence, x.values);
  header.step = x.step;
  header.begin = x.begin;
  header.group = static_cast<uint32_t>(x.stream);
  header.part = x.virtual_rank;
  return header;
}

FrameHeader write(const RowsWanted& x) {
  auto header = begin(MessageKind::rows_wanted, x.fence, x.samples);
  header.step = x.data_epoch;
  header.opaque = x.request;
  header.group = static_cast<uint32_t>(x.worker.kind);
  header.part = x.worker.index;
  return header;
}

FrameHeader write(const RowsServed& x) {
  auto header = begin(MessageKind::rows_served, x.fence, x.values);
  header.opaque = x.request;
  header.begin = x.begin;
  return header;
}

FrameHeader write(const ScalarsHeld& x) {
  return write_round(MessageKind::scalars_held, x);
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

TensorView values_of(const LinkMessage& message) {
  return std::visit([](const auto& x) { return payload(x); }, message);
}

namespace {

std::optional<LinkMessage>
chain_message_of(const FrameHeader& x, const Fence& fence, TensorView values) {
  switch (message_kind(x.kind).value_or(MessageKind::credit)) {
    case MessageKind::block_sums:
      if (auto sums = numbers_in<double>(values))
        return BlockSums{fence, x.step, x.group, x.bucket, std::move(*sums)};
      return std::nullopt;
    case MessageKind::scalars:
      return Scalars{fence, x.step, x.group, *numbers_in<float>(values)};
    case MessageKind::chain_join:
      if (x.group > 1 || values.size() != 0)
        return std::nullopt;
      return ChainJoin{fence,    {RoleKind::shard, x.part},
                       x.bucket, x.group == 1,
                       x.step,   x.begin};
    case MessageKind::slice_copy:
      if (x.begin > 1)
        return std::nullopt;
      return SliceCopy{fence,   x.bucket,     x.step,           x.part,
                       x.group, x.begin == 1, std::move(values)};
    case MessageKind::chain_update:
      return ChainUpdate{
        fence,
        x.bucket,
        x.step,
        x.begin,
        x.group % 2 == 1,
        std::bit_cast<float>(x.part),
        std::bit_cast<float>(static_cast<uint32_t>(x.opaque)),
        std::bit_cast<float>(static_cast<uint32_t>(x.opaque >> 32)),
        x.group / 2,
        std::move(values)};
    case MessageKind::chain_scalars:
      return ChainScalars{fence, x.step, x.group, *numbers_in<float>(values)};
    case MessageKind::scalars_held:
      if (values.size() != 0)
        return std::nullopt;
      return ScalarsHeld{fence, x.step, x.group};
    case MessageKind::ask_shares:
      if (values.size() != 0)
        return std::nullopt;
      return AskShares{fence};
    case MessageKind::step_shares:
      if (values.size() % 2 != 0)
        return std::nullopt;
      return StepShares{fence, x.step, ranges_in(values)};
    default:
      return std::nullopt;
  }
}

/// Errors: nothing, where the number of a kind is none's.
std::optional<RoleId> role_in(const FrameHeader& x) {
  const RoleId role{static_cast<RoleKind>(x.group), x.part};
  return static_cast<uint32_t>(role.kind) == x.group ? std::optional{role}
                                                     : std::nullopt;
}

} // namespace

std::optional<LinkMessage> message_of(const FrameHeader& x, TensorView values) {
  const Fence fence{x.job, x.term, x.epoch};
  switch (message_kind(x.kind).value_or(MessageKind::credit)) {
    case MessageKind::pull: {
      const auto puller = role_in(x);
      if (!puller || !pulls_parameters(puller->kind) || values.size() != 0)
        return std::nullopt;
      return Pull{fence, *puller, x.step, x.bucket};
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
    case MessageKind::row_pull: {
      const auto puller = role_in(x);
      if (!puller
          || (puller->kind != RoleKind::worker
              && puller->kind != RoleKind::evaluator))
        return std::nullopt;
      return RowPull{fence, *puller, x.step, x.bucket, std::move(values)};
    }
    case MessageKind::rows_wanted: {
      const auto worker = role_in(x);
      if (!worker || worker->kind != RoleKind::worker)
        return std::nullopt;
      return RowsWanted{fence, *worker, x.opaque, x.step, std::move(values)};
    }
    case MessageKind::rows_served:
      return RowsServed{fence, x.opaque, x.begin, std::move(values)};
    case MessageKind::stage_values:
      if (x.group > static_cast<uint32_t>(last_stage_stream))
        return std::nullopt;
      return StageValues{fence,   x.step,
                         x.part,  static_cast<StageStream>(x.group),
                         x.begin, std::move(values)};
    default:
      return chain_message_of(x, fence, std::move(values));
  }
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
