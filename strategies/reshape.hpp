#pragma once

#include "strategies/role_id.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace troupe {

/// A wish to change who takes part in a running job, or who keeps which slice:
///
///   shards add N          workers add N          rebalance
///   shards remove ps:I    workers remove worker:I
///   move-slices ps:A ps:B [3,4,…]
struct Reshape {
  enum class Kind : uint8_t { add, remove, rebalance, move };

  Kind kind = Kind::rebalance;
  RoleKind of = RoleKind::shard; ///< add: what is added
  uint32_t count = 1;            ///< add: how many
  RoleId from{};                 ///< remove: who leaves; move: who gives
  RoleId to{};                   ///< move: who takes
  std::vector<uint32_t> slices;  ///< move; empty: all that `from` keeps

  friend bool operator==(const Reshape&, const Reshape&) = default;
};

/// As the list above.
std::string to_string(const Reshape& wish);
/// Reads what to_string writes; a count of 1 may be left out.
/// Errors: returns false, and `mistake` says what is expected.
bool parse(const std::string& text, Reshape& wish, std::string& mistake);
/// Reads `worker:3` or `ps:0`. Errors: returns false for anything else.
bool parse_member(const std::string& text, RoleId& role);

} // namespace troupe
