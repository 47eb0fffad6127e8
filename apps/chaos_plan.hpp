#pragma once

#include "actors/fault_injector.hpp"
#include "strategies/plan.hpp"

#include <cstdint>
#include <random>
#include <vector>

namespace troupe {

/// Faults for a job, drawn from a seed: phase after phase, each as often as
/// the others, at random roles. Never are two roles of one chain down at once.
class ChaosPlan {
public:
  ChaosPlan(const Plan& plan, uint64_t seed);

  /// What is to strike at once next: one role; or one that dies while it seals
  /// and one of another chain whose death makes it seal.
  struct Strike {
    std::vector<FaultWish> wishes;
    uint64_t steps_before = 0; ///< steps to commit since the strike before
  };
  /// At most `most` deaths.
  Strike next(uint64_t most);
  /// The same strike at another replica of the same chain, for a phase that
  /// only its head or its tail goes through. False: there is no other.
  bool redirect(Strike& strike) const;

private:
  struct Case {
    StepPhase phase;
    RoleKind kind;
  };
  RoleId any(RoleKind kind);
  uint32_t chain_of(RoleId role) const;
  uint64_t draw(uint64_t low, uint64_t high);

  uint32_t workers_;
  uint32_t owners_; ///< chains of shards
  uint32_t chain_;
  bool pair_; ///< the workers are two, and keep the dense variables
  std::vector<Case> cases_;
  size_t next_ = 0;
  std::mt19937_64 random_;
};

} // namespace troupe
