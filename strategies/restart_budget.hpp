#pragma once

#include "strategies/role_id.hpp"

#include <cstdint>
#include <map>
#include <optional>
#include <string>

namespace troupe {

/// Decides whether a dead role is started again. Every restart spends one of
/// `budget`; a step committed after it gives all back. Restarts without
/// progress are a crash loop. Where a role ends by itself soon after each
/// start, every restart waits longer than the one before, up to two seconds;
/// what twice had too little memory, or read what is wrong, is not started
/// again. What ends with a host that is away spends nothing for the first
/// minute without a committed step: the role is not to blame, and a host that
/// is not back by then may never be. Source: the restart intensity of
/// Erlang/OTP's supervisors, with progress of the job in place of a period of
/// time.
class RestartBudget {
public:
  struct Verdict {
    bool restart = false;
    uint32_t left = 0;
    std::string reason;    ///< e.g. "worker:0 died (signal 9): restart 2 of 5"
    uint64_t delay_ms = 0; ///< before that restart
  };

  /// The life that has ended; without more, one that was long.
  struct Life {
    uint64_t ms = ~uint64_t{0};
    bool by_itself = false; ///< not ended by others: it may well do so again
    bool memory = false;    ///< it had too little
    /// It ended with others, as of a host that is lost, and one of them has
    /// spent a restart: all are started again for that.
    bool beside = false;
    bool input = false; ///< what it was given to read is wrong
    /// Its host did not answer, or the way there was lost.
    bool away = false;
  };

  explicit RestartBudget(uint32_t budget = 5);

  Verdict died(RoleId role, const std::string& how);
  /// `now_ms`: of any steady clock.
  Verdict died(RoleId role, const std::string& how, const Life& life,
               uint64_t now_ms = 0);
  /// Only a step newer than all before counts: repeating steps after a
  /// rollback is no progress.
  void committed(uint64_t step);
  uint32_t budget() const { return budget_; }
  uint32_t left() const { return budget_ - spent_; }

private:
  static constexpr uint64_t short_life_ms = 5'000;   ///< that ended by itself
  static constexpr uint64_t short_again_ms = 60'000; ///< to the same end
  static constexpr uint64_t first_delay_ms = 100;
  static constexpr uint64_t max_delay_ms = 2'000;
  static constexpr uint64_t max_away_delay_ms = 5'000;
  static constexpr uint64_t away_patience_ms = 60'000;

  struct Past { ///< of a role
    uint64_t next_delay_ms = 0;
    bool memory = false; ///< its last life ended for want of it
    bool input = false;  ///< its last life ended for what it read
  };
  uint64_t delay_after(Past& past, const Life& life) const;
  bool is_patient(const Life& life, uint64_t now_ms);

  std::map<RoleId, Past> past_;
  uint32_t budget_;
  uint32_t spent_ = 0;
  uint64_t committed_steps_ = 0; ///< newest committed step + 1
  /// When a host was first away since that step.
  std::optional<uint64_t> away_since_ms_;
};

} // namespace troupe
