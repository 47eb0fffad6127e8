#pragma once

#include "strategies/chain_book.hpp"
#include "strategies/reshape.hpp"

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <variant>
#include <vector>

namespace troupe {

/// Changes who takes part in a running job, and who keeps which slice, one wish
/// at a time. Nothing stops meanwhile: who is added joins by the next epoch,
/// and who is removed keeps its slices until others have them (chain_book.hpp).
///
///             all have joined            learnt, old ones left
///   add ------------------> rebalanced ----------------------> answered
///   move, rebalance --------------^                               ^
///   remove a shard: rebalanced without it -> it is retired -------+
///   remove a worker: retired at once -----------------------------+
///
/// Pure: time comes with each event, what to do comes back as actions.
class Reshaping {
public:
  struct Options {
    std::vector<RoleId> roles; ///< workers and shards of the plan
    uint32_t max_workers = 0;  ///< virtual ranks
    uint32_t chain = 1;        ///< replicas of a slice
    std::vector<uint64_t> slice_bytes;
    uint32_t min_workers = 1;
    std::string fixed_workers;  ///< why none may come; empty: they may
    std::string needed_workers; ///< why none may go; empty: they may
    std::string fixed_slices;   ///< why no slice moves; empty: they do
    uint64_t join_deadline_ms = 30'000;
    /// Once one learner has caught up, how long it waits for the others.
    uint64_t learn_together_ms = 500;
  };

  struct Start { ///< it is expected from here on; have it started
    RoleId role;
  };
  struct Retire { ///< it leaves for good: nobody waits for it
    RoleId role;
  };
  struct Renew {}; ///< bring the next epoch about
  struct Tell {
    std::string line;
  };
  /// The wish is fulfilled, or never will be.
  struct Answer {
    bool done;
    std::string line;
  };
  using Action = std::variant<Start, Retire, Renew, Tell, Answer>;
  using Actions = std::vector<Action>;

  Reshaping(Options options, ChainBook& chains);

  // --- who belongs to the job -----------------------------------------------

  const std::set<RoleId>& roles() const { return roles_; }
  /// An earlier coordinator took these in, and let those go.
  void resume(const std::set<RoleId>& joined, const std::set<RoleId>& left);
  /// Why a role that says hello may not take part; empty: it may.
  std::string refusal(RoleId role) const;
  /// Why no role that nobody expected has that number; empty: it may have it.
  static std::string beyond(RoleId role);
  /// A role nobody expected was started by hand: it may join.
  bool is_guest(RoleId role) const { return guests_.contains(role); }
  /// A supervisor starts it again, whoever asked for it: it is no guest.
  void supervised(RoleId role);
  /// Takes part from here on. A shard that comes unasked gets slices.
  Actions joining(RoleId role, uint64_t now_ms);
  /// Its process is gone. A guest that nobody starts again is not waited for.
  Actions lost(RoleId role);
  /// It cannot take part, for this reason. Returns false for a role that has
  /// taken part before: that is the job's trouble.
  bool unfit(RoleId role, const std::string& why, Actions& actions);

  // --- wishes ---------------------------------------------------------------

  /// Errors: a line in `refused`, and no actions.
  Actions ask(const Reshape& wish, uint64_t now_ms, std::string& refused);
  bool pending() const { return change_.has_value(); }
  /// The run is over.
  Actions end();

  // --- epochs ---------------------------------------------------------------

  void began(const std::set<RoleId>& members, uint64_t now_ms,
             Actions& actions);
  Actions caught_up(uint32_t shard, uint64_t now_ms);
  Actions tick(uint64_t now_ms);

  /// What shards take, in any unit a byte, to sum and apply what is pushed;
  /// whoever is not named is as fast as the median.
  void costs(std::map<uint32_t, double> costs) { costs_ = std::move(costs); }

  /// What the last wish moved.
  size_t moved_slices() const { return moved_slices_; }
  uint64_t moved_bytes() const { return moved_bytes_; }

private:
  struct Change {
    Reshape wish;
    uint64_t since_ms = 0;
    std::set<RoleId> awaited; ///< added, not joined yet
    std::set<RoleId> added;
    bool moving = false; ///< what is wanted of slices has been said
  };

  std::set<uint32_t> shards() const;
  uint32_t count(RoleKind kind) const;
  std::string mistake(const Reshape& wish) const;
  std::string mistake_of_adding(const Reshape& wish) const;
  std::string mistake_of_removing(RoleId role) const;
  std::string mistake_of_removing_worker(RoleId role) const;
  std::string mistake_of_moving(const Reshape& wish) const;
  std::vector<uint32_t> slices_to_move(const Reshape& wish) const;
  void add(Change& change, Actions& actions);
  void spread(const std::set<uint32_t>& shards);
  void spread_without(uint32_t shard);
  void want(uint32_t slice, std::vector<uint32_t> shards);
  void retire(RoleId role, Actions& actions);
  void finish(bool done, const std::string& line, Actions& actions);
  std::string what_moved() const;

  Options options_;
  ChainBook& chains_;
  std::set<RoleId> roles_;
  std::set<RoleId> guests_;
  std::set<RoleId> supervised_; ///< of those that came unasked
  std::set<RoleId> proven_;     ///< have been members of an epoch
  std::set<RoleId> retired_;    ///< for good
  std::map<RoleKind, uint32_t> next_index_;
  std::map<uint32_t, double> costs_;
  std::optional<Change> change_;
  std::set<uint32_t> caught_up_;
  uint64_t first_caught_up_ms_ = 0;
  bool renew_ = false; ///< at the next tick
  size_t moved_slices_ = 0;
  uint64_t moved_bytes_ = 0;
};

} // namespace troupe
