#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <vector>

namespace troupe {

enum class RoleKind : uint8_t {
  coordinator,
  worker,
  shard,
  evaluator,
  stage,
  tensor,
  reader,
};

/// Whether an epoch has members of this kind.
constexpr bool is_member_kind(RoleKind kind) {
  return kind == RoleKind::worker || kind == RoleKind::shard
         || kind == RoleKind::stage || kind == RoleKind::tensor;
}
/// Whether a role computes with what it keeps, and nobody else has that: a
/// stage's layers, a tensor member's slices of them.
constexpr bool has_model_part(RoleKind kind) {
  return kind == RoleKind::stage || kind == RoleKind::tensor;
}
/// Whether a role may compute with what shards keep.
constexpr bool pulls_parameters(RoleKind kind) {
  return kind == RoleKind::worker || has_model_part(kind);
}
/// Whether a role keeps slices that no other of its kind has, in memory that
/// outlives its process.
constexpr bool keeps_slices(RoleKind kind) {
  return kind == RoleKind::shard || has_model_part(kind);
}

/// Names a role of the plan: `worker:0`, `ps:1`, `stage:2`, `reader:0`,
/// `coordinator`, `evaluator:0`.
struct RoleId {
  RoleKind kind = RoleKind::worker;
  uint32_t index = 0;

  friend auto operator<=>(const RoleId&, const RoleId&) = default;
};
std::string to_string(RoleId role);
/// Names roles that are in order: "ps:0, worker:3 to worker:9".
std::string to_string(const std::vector<RoleId>& roles);

} // namespace troupe
