#pragma once

#include "kernels/base/steady_clock.hpp"
#include "strategies/role_id.hpp"
#include "strategies/step_phase.hpp"

#include <chrono>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>

namespace troupe {

/// Of a step's leaves nobody is left who knows all losses; null in files.
inline constexpr double unknown_loss = std::numeric_limits<double>::quiet_NaN();

/// What of a run's account must outlive its coordinator. Times are Unix
/// milliseconds.
struct RunCounts {
  uint64_t begin_ms = 0; ///< 0: no epoch has begun
  uint64_t measured_from_ms = 0;
  uint64_t last_commit_ms = 0;
  uint64_t samples = 0;
  uint64_t measured_samples = 0;
  uint64_t rolled_back = 0; ///< steps
  uint64_t leases_rolled_back = 0;
  double last_loss = 0; ///< or unknown_loss
  double epoch_loss_sum = 0;
  uint64_t epoch_samples = 0;
  uint64_t refused_stale = 0;
  uint64_t sent_bytes = 0;
  uint64_t plain_bytes = 0;
  uint64_t duplicates = 0;
  uint64_t leaves_recomputed = 0;
  uint64_t ranks_left_out = 0;

  template <class Visit>
  void visit(Visit see) {
    see("begin_ms", begin_ms);
    see("measured_from_ms", measured_from_ms);
    see("last_commit_ms", last_commit_ms);
    see("samples", samples);
    see("measured_samples", measured_samples);
    see("rolled_back", rolled_back);
    see("leases_rolled_back", leases_rolled_back);
    see("loss", last_loss);
    see("epoch_loss_sum", epoch_loss_sum);
    see("epoch_samples", epoch_samples);
    see("refused_stale", refused_stale);
    see("sent_bytes", sent_bytes);
    see("plain_bytes", plain_bytes);
    see("duplicates", duplicates);
    see("leaves_recomputed", leaves_recomputed);
    see("ranks_left_out", ranks_left_out);
  }
};

/// A role's loss, and when steps went on.
struct RecoveryRow {
  std::string kind; ///< empty: not known yet
  RoleId role;
  StepPhase phase = StepPhase::none; ///< of the fault that was asked for
  uint64_t detected_ms = 0;          ///< Unix
  uint64_t resumed_ms = 0;           ///< Unix; 0: not yet
  uint64_t step = 0;
};

/// The same by the clock that recoveries are timed with.
struct Recovery {
  std::string kind;
  RoleId role;
  SteadyClock::time_point detected;
  std::optional<SteadyClock::time_point> resumed;
  uint64_t step;
  StepPhase phase;
  uint64_t detected_ms = 0; ///< Unix: its name in the journal
  bool written = false;     ///< there, as over

  RecoveryRow row() const;
};

} // namespace troupe
