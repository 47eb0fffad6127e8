#pragma once

#include "strategies/membership.hpp"

#include <cstdint>
#include <map>
#include <string>

namespace troupe {

/// Decides whether a dead role is started again. Every restart spends one of
/// `budget`; a step committed after it gives all back. Restarts without
/// progress are a crash loop.
class RestartBudget {
public:
  struct Verdict {
    bool restart = false;
    uint32_t left = 0;
    std::string reason; ///< e.g. "worker:0 died (signal 9): restart 2 of 5"
  };

  explicit RestartBudget(uint32_t budget = 5);

  Verdict died(RoleId role, const std::string& how);
  /// Only a step newer than all before counts: repeating steps after a
  /// rollback is no progress.
  void committed(uint64_t step);
  uint32_t budget() const { return budget_; }
  uint32_t left() const { return budget_ - spent_; }
  uint32_t restarts() const { return restarts_; } ///< over the whole run

private:
  uint32_t budget_;
  uint32_t spent_ = 0;
  uint32_t restarts_ = 0;
  uint64_t committed_steps_ = 0; ///< newest committed step + 1
};

} // namespace troupe
