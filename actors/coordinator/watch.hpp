#pragma once

#include "actors/wire/messages.hpp"
#include "strategies/role_id.hpp"
#include "strategies/waits_for.hpp"

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace troupe {

/// What the coordinator tells of supervision and of late steps (`troupe
/// status`): who starts whom again and how often it may, who waits for whom.
class CoordinatorWatch {
public:
  explicit CoordinatorWatch(uint32_t restarts)
    : allowed_(restarts), left_(restarts) {}

  /// The role supervisor has started it again, and may so many times more.
  void restarted(RoleId role, uint32_t left);
  /// Step `step` is; it took so long.
  void committed(uint64_t step, double seconds);

  /// Whether it is time to look: once in ten of the coordinator's ticks.
  bool is_due() { return ++ticks_ % ticks_a_look == 0; }
  double usual_ms() const { return usual_ms_; }
  /// Returns a line for the user when somebody else than before holds up a
  /// step.
  std::string look(WaitsFor waits, uint64_t step);
  /// Why the step is late; empty: it is not, or nobody knows.
  const std::string& reason() const { return waits_.reason; }

  /// Nobody starts those `by_hand` again.
  void show_supervision(const std::set<RoleId>& roles,
                        const std::set<RoleId>& by_hand,
                        std::vector<MetricSample>& samples) const;
  /// `out`: those of the absent who were members and are left out, and why.
  void show_members(size_t present, size_t absent,
                    const std::map<RoleId, std::string>& out,
                    std::vector<MetricSample>& samples) const;
  void show_waits(double age_seconds, std::vector<MetricSample>& samples) const;

private:
  static constexpr uint64_t ticks_a_look = 10;

  uint32_t allowed_;             ///< restarts that a committed step gives back
  uint32_t left_;                ///< of those, as the supervisor said last
  uint64_t committed_steps_ = 0; ///< newest committed step + 1
  std::map<RoleId, uint32_t> restarts_;
  double usual_ms_ = 0; ///< that a step takes, smoothed
  WaitsFor waits_;
  std::vector<RoleId> culprits_; ///< that were told of
  uint64_t ticks_ = 0;
};

} // namespace troupe
