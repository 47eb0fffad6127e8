#pragma once

#include "strategies/rank_tree.hpp"
#include "strategies/role_id.hpp"

#include <cstdint>
#include <vector>

/// What messages are made of, and how their fields are listed for CAF.
namespace troupe {

#define TROUPE_INSPECT(Type, ...) \
  template <class Inspector> \
  bool inspect(Inspector& f, Type& x) { \
    return f.object(x).fields(__VA_ARGS__); \
  }
#define TROUPE_FIELD(name) f.field(#name, x.name)

/// Delivery is fenced by these: a receiver drops what does not carry its own
/// (PROTOCOL 14).
struct Fence {
  uint64_t job = 0;
  uint64_t term = 0;
  uint64_t epoch = 0;
  friend bool operator==(const Fence&, const Fence&) = default;
  /// Tells whether it is a later epoch of one job, or one of a later
  /// coordinator (PROTOCOL 15).
  bool is_after(const Fence& other) const {
    return term != other.term ? term > other.term : epoch > other.epoch;
  }
};

/// What a slice's state is the outcome of.
struct SliceHistory {
  uint64_t updates = 0;     ///< that it has had
  uint64_t lease_floor = 0; ///< async: the leases among them, as a LeaseSet
  std::vector<uint64_t> leases_above{};
};

template <class Inspector>
bool inspect(Inspector& f, RoleId& x) {
  auto kind = static_cast<uint8_t>(x.kind);
  auto ok = f.object(x).fields(f.field("kind", kind),
                               f.field("index", x.index));
  x.kind = static_cast<RoleKind>(kind);
  return ok && kind <= static_cast<uint8_t>(RoleKind::reader);
}
TROUPE_INSPECT(RankRange, TROUPE_FIELD(lo), TROUPE_FIELD(hi))
TROUPE_INSPECT(Fence, TROUPE_FIELD(job), TROUPE_FIELD(term),
               TROUPE_FIELD(epoch))
TROUPE_INSPECT(SliceHistory, TROUPE_FIELD(updates), TROUPE_FIELD(lease_floor),
               TROUPE_FIELD(leases_above))

} // namespace troupe
