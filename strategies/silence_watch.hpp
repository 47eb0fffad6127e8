#pragma once

#include "strategies/role_id.hpp"

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace troupe {

/// Decides when a member has been silent for too long. Members give signs of
/// life at a steady pace; how much later than that they come depends on how
/// busy machines and network are, so the limit follows the longest gap between
/// two signs of one member that was lately seen:
///
///   limit = factor * longest gap, at least `min_ms`, at most `max_ms`
///
/// All members count together, for who shares a machine is late together.
/// Pure: times are milliseconds of any steady clock.
class SilenceWatch {
public:
  struct Options {
    uint64_t min_ms = 1'000;
    uint64_t max_ms = 5'000;
    uint64_t factor = 3;
    /// The limit until signs were heard for so long.
    uint64_t first_ms = 2'000;
    uint64_t learn_ms = 5'000;
    /// A gap counts for one to two of these.
    uint64_t window_ms = 30'000;
    uint64_t tick_ms = 100; ///< between two calls of tick()
  };
  struct Silent {
    RoleId role;
    std::string reason;
  };

  SilenceWatch(const Options& options, uint64_t now_ms)
    : options_(options), ticked_ms_(now_ms), window_began_ms_(now_ms) {}

  /// The role takes part from now on, as another process than before.
  void joined(RoleId role, uint64_t now_ms);
  /// A sign of life; ignored of a role that does not take part.
  void heard(RoleId role, uint64_t now_ms);
  void gone(RoleId role) { members_.erase(role); }
  /// How long nothing was heard of it; 0 of a role that does not take part.
  uint64_t silent_ms(RoleId role, uint64_t now_ms) const;
  /// Returns who has been silent for too long; they are gone then. Time in
  /// which nobody called counts for nobody's silence: whoever should have was
  /// not running, and heard nothing.
  std::vector<Silent> tick(uint64_t now_ms);

  uint64_t limit_ms(uint64_t now_ms) const;
  /// From here on the limit is no less than that.
  void raise_min(uint64_t min_ms);

private:
  /// Whoever should have called tick() was not running.
  bool is_late(uint64_t now_ms) const;

  Options options_;
  uint64_t ticked_ms_;
  uint64_t window_began_ms_;
  uint64_t learning_since_ms_ = 0; ///< 0: nobody has joined
  uint64_t longest_ms_ = 0;        ///< gap of this window
  uint64_t before_ms_ = 0;         ///< gap of the window before
  struct Member {
    uint64_t heard_ms = 0;
    bool begins = true; ///< no sign since it joined: its pace is not known
  };
  std::map<RoleId, Member> members_;
};

} // namespace troupe
