#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace troupe {

/// What a member knows of its collective calls when its streams have ended.
/// Calls are numbered from 0, equally on all members.
struct CollectiveSeal {
  /// Calls below it returned done, confirmed: everybody has their sums.
  uint64_t done = 0;
  /// This member has the sums of call `done` too, but not the confirmation.
  bool whole = false;
};

struct CollectiveDecision {
  /// Calls below it count for everybody; the one that begins there failed for
  /// everybody, or nobody made it.
  uint64_t counted = 0;
  std::string reason;
  bool sound = true; ///< false: the seals contradict each other
};

/// The third party that settles what became of a call whose links broke (I8: a
/// collective gives every member the same result or aborts for all).
///
/// A member that returns done knows that all have the sums, but no message can
/// make all know that all know: the last one may be lost, and leave one member
/// with done and another with an error. So members whose streams ended seal
/// what they know here, and go on only by the decision: if anyone is done, the
/// call counts for all. The caller leaves out members that died: they need no
/// result.
class CollectiveVerdict {
public:
  explicit CollectiveVerdict(uint32_t members);

  /// A member's first seal holds: it is what it acts by.
  void seal(uint32_t member, const CollectiveSeal& seal);
  bool complete() const;
  std::vector<uint32_t> missing() const;
  /// Once complete.
  CollectiveDecision decide() const;

private:
  std::vector<std::optional<CollectiveSeal>> seals_;
};

} // namespace troupe
