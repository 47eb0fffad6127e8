#pragma once

#include "actors/links/frame.hpp"
#include "actors/wire/messages.hpp"

#include <optional>
#include <variant>

namespace troupe {

/// The messages that travel over links: those with tensors, what asks for
/// them, and all that shards, and stages, say to one another.
using LinkMessage =
  std::variant<Pull, Pulled, Push, LeasePush, BlockSums, Scalars, ChainJoin,
               SliceCopy, ChainUpdate, ChainScalars, ScalarsHeld, AskShares,
               StepShares, RowPull, StageValues, RowsWanted, RowsServed>;

/// Frames of message links. The first ones are the alternatives of LinkMessage,
/// in its order; `credit` grants bytes to the peer, up to a total.
enum class MessageKind : uint16_t {
  pull,
  pulled,
  push,
  lease_push,
  block_sums,
  scalars,
  chain_join,
  slice_copy,
  chain_update,
  chain_scalars,
  scalars_held,
  ask_shares,
  step_shares,
  row_pull,
  stage_values,
  rows_wanted,
  rows_served,
  credit,
};

FrameKind frame_kind(MessageKind kind);

/// The same for a message whose tensor stays where it is: instead of it the
/// frame has LentBytes, to which its checksum belongs.
FrameKind lent_kind(FrameKind kind);
bool is_lent(FrameKind kind);

/// Errors: nullopt for a frame that carries no message.
std::optional<MessageKind> message_kind(FrameKind kind);

/// The header of a message, without the checksum of its payload, which is
/// values_of().
FrameHeader header_of(const LinkMessage& message);

/// The tensor that the message carries, or its numbers as one; empty for one
/// that carries none.
TensorView values_of(const LinkMessage& message);

/// What header_of() gave away, with the payload that came after it.
/// Errors: nullopt for a header that no message of its kind has.
std::optional<LinkMessage> message_of(const FrameHeader& header,
                                      TensorView values);

/// Grants `total` bytes, counted from the link's beginning. `returns`, where
/// the sender of the grant has its ReturnTable; nullopt: it borrows nothing.
FrameHeader credit_header(uint64_t total,
                          std::optional<uint64_t> returns = std::nullopt);

} // namespace troupe
