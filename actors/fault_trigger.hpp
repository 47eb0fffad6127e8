#pragma once

#include "strategies/step_phase.hpp"

#include <atomic>
#include <cstdint>

namespace troupe {

/// A role's end at a chosen place: kill -9 where the role has a process, an
/// exception out of its actor where it shares one. Armed by the role's actor;
/// a phase is passed by one thread.
class FaultTrigger {
public:
  explicit FaultTrigger(bool own_process) : own_process_(own_process) {}

  /// The role ends when it passes `phase` once more than `after` times.
  void arm(StepPhase phase, uint32_t after);
  /// The role is in that phase now.
  void pass(StepPhase phase) {
    if (phase == armed_.load(std::memory_order_relaxed)) [[unlikely]]
      strike();
  }

private:
  void strike();

  bool own_process_;
  std::atomic<StepPhase> armed_{StepPhase::none};
  std::atomic<uint32_t> after_{0};
};

} // namespace troupe
