#pragma once

#include "strategies/role_id.hpp"

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace troupe {

/// Decides what becomes of members that live and cannot reach one another
/// (PROTOCOL 17). A link that fails is made again by the next epoch; one that
/// fails in epoch after epoch without a commit between them is dead, and the
/// fewest members are left out that make every needed link work.
///
///   works --- fails ---> suspect --- fails in the next epoch ---> dead
///     ^                     |                                      |
///     +----- a commit ------+        who was left out probes, and  |
///     +------------------ is readmitted when its delay is over <---+
///
/// The delay is 0 at first and grows each time the same link dies again; it is
/// forgotten once the link has worked for a while.
///
/// An epoch ends at the first links of it that fail, so others are not heard
/// of. Where two links between the same hosts fail that have no end in common,
/// and one of them is dead, it is the cable: all links over it are taken for
/// dead, as whoever is left out for some of them may be whom the others need.
///
/// Pure: times are milliseconds of any steady clock.
class DeadLinks {
public:
  struct Options {
    uint32_t failures = 2;       ///< in different epochs, in a row
    uint64_t first_ms = 1'000;   ///< the second time; doubled each time
    uint64_t max_ms = 60'000;    ///< of a delay
    uint64_t forget_ms = 60'000; ///< that a link has worked since it died
  };
  /// The two hosts, the lower one first, that a link which two members need
  /// leads between. nullopt: they need none, or it is not known.
  using Cable = std::pair<std::string, std::string>;
  using CableOf = std::function<std::optional<Cable>(RoleId, RoleId)>;
  /// Whether these members can go on without the others.
  using Viable = std::function<bool(const std::set<RoleId>&)>;

  DeadLinks() : DeadLinks(Options{}) {}
  explicit DeadLinks(const Options& options) : options_(options) {}

  /// Two members that the coordinator hears had no link in this epoch; either
  /// may say so, or both.
  void failed(RoleId one, RoleId other, uint64_t epoch, uint64_t now_ms);
  /// A step was committed: the links of its epoch work.
  void committed();
  /// That process is lost for another reason: its links are not to blame.
  void lost(RoleId role);
  /// Two members, the lower one first.
  using Link = std::pair<RoleId, RoleId>;
  /// The dead links between those who are present.
  std::vector<Link> dead(const std::set<RoleId>& present,
                         const CableOf& cable_of = no_cable) const;
  /// Returns who has to go, of `present`: as few as can be such that no dead
  /// link is left and the rest is viable; workers before shards, and the
  /// highest numbers first. Empty: no link is dead, or nobody can be spared.
  /// Whoever is returned counts as left out.
  std::vector<RoleId> leave_out(const std::set<RoleId>& present,
                                const Viable& viable, uint64_t now_ms,
                                const CableOf& cable_of = no_cable);
  /// Whether leave_out() has returned it, and it is not back.
  bool is_out(RoleId role) const;
  /// Whom this role has to reach before it comes back; empty: it was not left
  /// out by leave_out(), or nobody of them is there.
  std::set<RoleId> to_probe(RoleId role, const std::set<RoleId>& present) const;
  /// How much longer it is not readmitted.
  uint64_t delay_ms(RoleId role, uint64_t now_ms) const;
  /// It is back: its links are tried again.
  void readmitted(RoleId role, uint64_t now_ms);

private:
  static std::optional<Cable> no_cable(RoleId, RoleId) { return std::nullopt; }

  struct Known {
    uint32_t failures = 0;      ///< in a row
    uint64_t epoch = 0;         ///< of the newest failure
    uint32_t deaths = 0;        ///< lately
    uint64_t back_ms = 0;       ///< tried again since then
    bool dead = false;          ///< one of its ends is left out for it
    RoleId out{};               ///< which
    uint64_t not_before_ms = 0; ///< is `out` back
  };

  Options options_;
  std::map<Link, Known> links_;
};

} // namespace troupe
