#pragma once

#include "strategies/role_id.hpp"

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <variant>
#include <vector>

namespace troupe {

/// Moves a job from epoch to epoch (PROTOCOL 14): proposed, sealed by all who
/// stay, then active. Pure: time comes with each event, in milliseconds of any
/// steady clock; what to do comes back as actions.
///
///            enough are present          all sealed
///   forming ---------------------> sealing ----------> active
///      ^                            ^   |                 |
///      |  a member lost, or did not |   |                 |
///      |  seal in time: left out    |   |                 |
///      +----------------------------+---+<--- lost -------+
///        (too few are left, or an   |                     |
///         absent one is awaited)    +--- join, renew -----+
///
/// Enough for the first epoch are all roles, and what it needs beside them
/// (`may_begin`), within the join deadline; later those that `viable` accepts,
/// so that survivors go on at once and a newcomer is taken in by the epoch that
/// its join brings. Too few past `join_deadline_ms` (before the first epoch it
/// counts from the last arrival of a role) end the job; so does an absent
/// member without which something would be lost, as the seals tell. A
/// membership that follows an earlier one first gathers who was there.
class Membership {
public:
  enum class State { forming, sealing, active, failed };

  struct Options {
    std::vector<RoleId> roles; ///< who must be present in the first epoch
    /// Whether these members can go on without the others; empty: never.
    std::function<bool(const std::set<RoleId>&)> viable;
    /// Asked when all have sealed: who holds what none of them does, as far as
    /// anybody knows. The epoch does not begin while one of those is absent;
    /// empty: nobody ever is awaited.
    std::function<std::set<RoleId>()> awaited;
    /// Worker and shard of a number are one process, `sharded:N`.
    bool paired = false;
    /// Asked before the first epoch when all roles are present: whether it may
    /// begin. It does past the join deadline whatever is answered; empty: yes.
    std::function<bool()> may_begin{};
    /// Asked when roles did not join: whether somebody starts them, rather than
    /// the user by hand; empty: nobody does.
    std::function<bool()> starts_roles{};
    /// For how long nothing was heard of a member. One that was heard of lately
    /// is at a pass that nobody breaks off, and seals when it is done. Empty:
    /// nothing is known of that.
    std::function<uint64_t(RoleId)> silent_ms{};
    uint64_t join_deadline_ms = 30'000;
    uint64_t seal_deadline_ms = 5'000;
    /// Of who was heard of within the former, from the first proposal on that
    /// it has not sealed.
    uint64_t busy_seal_deadline_ms = 60'000;
    /// Of an earlier coordinator's membership: its newest epoch (0: there was
    /// none), and the members of it, who are waited for (PROTOCOL 16): all of
    /// them, or so long.
    uint64_t epoch = 0;
    std::set<RoleId> gather{};
    uint64_t gather_deadline_ms = 1'000;
  };

  /// Ask each member to seal: stop, report, drop the epoch before.
  struct Propose {
    uint64_t epoch;
    std::vector<RoleId> members;
    std::string cause; ///< who came or went, or what else asked for it
  };
  /// All have sealed: the epoch is active.
  struct Activate {
    uint64_t epoch;
    std::string cause; ///< that of its proposal
  };
  /// The member did not answer; whoever supervises it should replace it.
  struct LeaveOut {
    RoleId role;
    uint64_t incarnation;
    std::string reason;
  };
  /// All have sealed, and the epoch does not begin before one of these is back.
  struct Await {
    std::vector<RoleId> roles;
  };
  /// The job cannot go on; the reason names the role.
  struct Fail {
    std::string reason;
  };
  using Action = std::variant<Propose, Activate, LeaveOut, Await, Fail>;
  using Actions = std::vector<Action>;

  Membership(Options options, uint64_t now_ms);

  /// A role asks to join as `incarnation`; an older incarnation of it counts as
  /// lost. A lower or equal incarnation than the present one is ignored, and so
  /// is one that was lost or left out: a late copy of its request must not
  /// bring the dead back. Ignored too: a role that is not expected.
  Actions join(RoleId role, uint64_t incarnation, uint64_t now_ms);
  /// Tells whether that incarnation, or a newer one, was lost or left out.
  bool is_gone(RoleId role, uint64_t incarnation) const;
  /// From here on the role may join as well.
  void expect(RoleId role);
  /// The role leaves for good: nobody waits for it.
  Actions dismiss(RoleId role, uint64_t now_ms);
  /// Ignored unless that incarnation is the present one.
  Actions lost(RoleId role, uint64_t incarnation, uint64_t now_ms);
  /// The process of an absent role is dead, and what it held with it: it is not
  /// awaited. Ignored where the role is present.
  Actions died(RoleId role, uint64_t now_ms);
  /// Ignored unless `epoch` is the one being sealed.
  Actions sealed(RoleId role, uint64_t incarnation, uint64_t epoch,
                 uint64_t now_ms);
  /// The members of the active epoch need another one, for instance because a
  /// link between two of them is cut. Ignored in any other state.
  Actions renew(std::string cause, uint64_t now_ms);
  /// Call at least every few hundred milliseconds.
  Actions tick(uint64_t now_ms);

  State state() const { return state_; }
  uint64_t epoch() const { return epoch_; } ///< newest proposed
  std::vector<RoleId> absent() const;
  size_t present() const { return present_.size(); } ///< how many

private:
  bool enough() const;
  std::vector<RoleId> awaited() const;
  /// The next epoch, if those who are left can go on.
  Actions go_on(std::string cause, uint64_t now_ms);
  Actions propose(std::string cause, uint64_t now_ms);
  /// It should have sealed by now: the time that it had; else empty.
  std::optional<uint64_t> overdue(RoleId role, uint64_t now_ms) const;
  /// `otherwise`, unless no epoch of this membership was active yet: then it is
  /// what the first one is for.
  std::string cause(std::string otherwise) const;
  void remove(RoleId role, uint64_t now_ms);

  Options options_;
  State state_ = State::forming;
  uint64_t epoch_ = 0;
  bool begun_ = false;      ///< an epoch has been active
  bool leads_ = false;      ///< one of this membership has
  std::string cause_;       ///< of the newest proposal
  bool waits_ = false;      ///< for one that holds what nobody present does
  std::set<RoleId> gather_; ///< waited for, not here yet
  uint64_t proposed_ms_ = 0;
  std::map<RoleId, uint64_t> present_; ///< role -> incarnation
  std::map<RoleId, uint64_t> gone_;    ///< role -> newest one removed
  std::set<RoleId> absent_;
  uint64_t forming_since_ms_ = 0;
  std::set<RoleId> awaiting_seal_;
  std::map<RoleId, uint64_t> owes_since_; ///< a seal, of whichever proposal
  std::set<RoleId> dead_;                 ///< absent, with all that they held
};

} // namespace troupe
