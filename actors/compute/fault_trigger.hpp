#pragma once

#include "kernels/base/steady_clock.hpp"
#include "strategies/fault_kind.hpp"
#include "strategies/step_phase.hpp"

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>

namespace troupe {

/// A role's fault at a chosen place: kill -9 or SIGSTOP of itself, slowness, a
/// broken link, a computation that goes wrong; where the role shares a process,
/// an exception out of its actor. Armed by the role's actor; a phase is passed
/// by one thread.
class FaultTrigger {
public:
  struct Fault {
    FaultKind kind = FaultKind::kill;
    StepPhase phase = StepPhase::none;
    uint32_t after = 0;  ///< so often the phase is passed unharmed
    uint32_t amount = 0; ///< slow: milliseconds; cut: which link, modulo
  };

  /// What becomes of a computation.
  enum class Harm : uint8_t { none, nan, failure, memory };

  /// Without `obeys` nothing is armed, whoever asks.
  explicit FaultTrigger(bool own_process, bool obeys = true)
    : own_process_(own_process), obeys_(obeys) {}

  /// Breaks one of the links; set before the role begins.
  std::function<void(uint32_t which)> cut;
  /// Ends the connection to the coordinator; set before the role begins.
  std::function<void()> cut_control;
  /// Told, on the thread that passes, of a fault that the role survives: after
  /// it. Set before the role begins.
  std::function<void(StepPhase)> struck;

  /// It strikes when the role passes the phase once more than `after` times.
  void arm(const Fault& fault);
  /// The role is in that phase now.
  void pass(StepPhase phase) {
    if (phase == armed_.load(std::memory_order_acquire)) [[unlikely]]
      strike();
  }
  /// What a computation is to take longer now, as long as the role is slow.
  std::chrono::milliseconds delay() const;
  /// What is to happen to the leaf that is being computed, told once; one that
  /// the role survives counts as having struck. Call from any thread.
  Harm take_harm() {
    return harm_.load(std::memory_order_relaxed) == Harm::none ? Harm::none
                                                               : harm();
  }

private:
  using Clock = SteadyClock;

  void strike();
  Harm harm();

  bool own_process_;
  bool obeys_;
  std::atomic<StepPhase> armed_{StepPhase::none};
  std::atomic<FaultKind> kind_{FaultKind::kill};
  std::atomic<uint32_t> after_{0};
  std::atomic<uint32_t> amount_{0};
  std::atomic<Clock::rep> slow_until_{0};
  std::atomic<Harm> harm_{Harm::none};
};

} // namespace troupe
