#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace troupe {

/// Where a shard stands in the chain of one slice (PROTOCOL 18):
///
///   pushes -> head -> … -> tail -> pulls        tail -> learners
///
/// Everybody but the head follows one other.
/// Source: van Renesse and Schneider, OSDI 2004: updates enter at the head,
/// the tail answers.
struct ChainPlace {
  bool head = false;
  bool tail = false;
  bool learner = false;
  bool replica = false;
  std::optional<uint32_t> predecessor; ///< whom it follows
  std::vector<uint32_t> followers;

  bool any() const { return replica || learner; }
};
ChainPlace place_in_chain(const std::vector<uint32_t>& replicas,
                          const std::vector<uint32_t>& learners,
                          uint32_t shard);

/// What a replica has of a slice: so many updates of the history that it took
/// part in last. Two with equal lineage have the same history as far as both
/// go; of two that differ, one may hold what was never acknowledged.
struct ChainState {
  bool whole = false; ///< it holds the slice at all
  uint64_t version = 0;
  uint64_t lineage = 0; ///< epoch
};

/// One follower of a slice, as seen by whom it follows, in one epoch. Decides
/// what is sent to it and what waits; holds numbers, its owner the updates.
///
///             joined()                     copied(v)
///   unknown ------------> copying -----------------------> fed
///      |                    updates wait      those from v on are sent
///      +----------------------------------------------------^
///          joined(), and what it lacks is waiting: sent
class ChainFeed {
public:
  /// Updates that wait for a follower that has not joined yet; more are not
  /// kept: it gets a copy.
  static constexpr uint64_t max_waiting = 16;

  /// `next` is the number of the next update to be ordered.
  explicit ChainFeed(uint64_t next) : first_(next), next_(next) {}

  enum class Verdict { send, wait, forget };
  /// An update has been ordered. Wait: keep it; forget: drop it and all that
  /// wait.
  Verdict ordered(uint64_t number);

  enum class Answer {
    nothing, ///< it has asked already
    feed,    ///< tell it that it is current, then send what waits
    copy,    ///< begin a copy; what is ordered from here on waits for it
  };
  /// The follower has told what it has; `own` is what this side has, with all
  /// that is ordered.
  Answer joined(const ChainState& follower, const ChainState& own);
  /// The copy, of `version`, has been sent: send what waits from there on.
  void copied(uint64_t version);

  /// What waits is to be sent from this number on (after joined, copied).
  uint64_t from() const { return from_; }
  bool fed() const { return stage_ == Stage::fed; }

private:
  enum class Stage { unknown, copying, fed };
  Stage stage_ = Stage::unknown;
  bool forgot_ = false;
  uint64_t first_; ///< that waits, if any does
  uint64_t next_;
  uint64_t from_ = 0;
};

/// The side of the follower, or of the head, which follows nobody.
class ChainReplica {
public:
  ChainReplica(ChainState state, bool follows)
    : state_(state), current_(!follows) {}

  enum class Verdict {
    apply,
    duplicate, ///< it has it
    gap,       ///< one before it is missing: the link lost something
    early,     ///< its predecessor has not answered yet
  };
  Verdict offer(uint64_t number);
  /// The head orders an update of its own; returns its number.
  uint64_t order();
  /// Its predecessor says that it lacks nothing.
  void confirmed() { current_ = true; }
  /// It has got a copy instead of what it had.
  void copied(uint64_t version);

  bool current() const { return current_; }
  const ChainState& state() const { return state_; }

private:
  ChainState state_;
  bool current_;
};

} // namespace troupe
