#pragma once

#include "apps/settings/chaos_kind.hpp"
#include "strategies/plan.hpp"
#include "strategies/step_phase.hpp"

#include <array>
#include <cstdint>
#include <optional>
#include <random>
#include <set>
#include <vector>

namespace troupe {

/// A fault that is to strike; else as FaultWish.
struct ChaosWish {
  RoleId role;
  std::vector<StepPhase> phases;
  uint32_t after = 0;
  ChaosKind kind = ChaosKind::kill;
  uint32_t amount = 0;
  uint32_t cable = 0; ///< of host_cut: which, and which way
};

/// What is to strike at once: one role; or one that dies while it seals and one
/// of another chain whose death makes it seal.
struct ChaosStrike {
  std::vector<ChaosWish> wishes;
  uint64_t steps_before = 0; ///< steps to commit since the strike before
  /// Once so many steps are committed, instead.
  std::optional<uint64_t> at_step{};

  uint64_t faults() const; ///< that it counts as
};

/// Pauses as short as this leave a role in the job.
inline constexpr uint32_t borne_pause_ms = 300;

/// Faults for a job, drawn from a seed: kind after kind, phase after phase,
/// each as often as the others, at random roles. Where there are several kinds
/// deaths come more often, as some phases are theirs alone. Never are two roles
/// of one chain down at once. A worker that had too little memory dies in
/// another way before it has so again.
class ChaosPlan {
public:
  using Strike = ChaosStrike;

  /// Errors: UsageError where none of the roles can have a fault of that kind.
  ChaosPlan(const Plan& plan, uint64_t seed,
            std::vector<ChaosKind> kinds = {ChaosKind::kill});

  /// Draws the next strike, of at most `most` faults.
  Strike next(uint64_t most);
  /// The same strike at another replica of the same chain, for a phase that
  /// only its head or its tail goes through. False: there is no other.
  bool redirect(Strike& strike) const;

private:
  struct Case {
    StepPhase phase;
    RoleKind kind;
  };
  /// Errors: UsageError where the kind is none for such a job.
  void check(ChaosKind kind, const Plan& plan) const;
  void add_deaths(std::vector<Case>& cases) const;
  void add_survived(ChaosKind kind, std::vector<Case>& cases) const;
  /// One more turn for each case of deaths whose phase no other kind has.
  void add_turns_of_deaths();
  uint32_t draw_amount(ChaosKind kind);
  Strike draw_strike(uint64_t most);
  RoleId any(RoleKind kind);
  /// Whether the job bears that both are down at once.
  bool apart(RoleId one, RoleId other) const;
  uint32_t chain_of(RoleId role) const;
  uint64_t draw(uint64_t low, uint64_t high);

  RoleKind computing_; ///< worker, or stage, or tensor member
  uint32_t workers_;   ///< of that kind
  uint32_t owners_;    ///< chains of shards
  uint32_t readers_;
  uint32_t chain_;
  bool pair_;   ///< the workers are two, and keep the dense variables
  bool paired_; ///< worker K and shard K are one process
  std::vector<ChaosKind> kinds_;
  std::array<std::vector<Case>, chaos_kinds> cases_; ///< by kind
  std::array<size_t, chaos_kinds> next_case_{};
  size_t next_kind_ = 0;
  /// And have not died in another way since: twice, and it would not be started
  /// again.
  std::set<RoleId> lacked_memory_;
  std::mt19937_64 random_;
};

} // namespace troupe
