#pragma once

#include "actors/role/context.hpp"

#include <algorithm>
#include <cstdint>
#include <deque>
#include <utility>

namespace troupe {

/// What a role has reported of leaves. A coordinator may die before it has
/// heard of them, or before it has written down that their step is committed:
/// the next one is told again. Steps go on without a coordinator, so the newest
/// reports are kept, some tens of bytes a leaf.
class KeptReports {
public:
  static constexpr size_t max_leaves = 16'384;

  template <class Pointer>
  void send(Pointer self, const RoleContext& context, LeafReport report) {
    self->send(context.coordinator, report);
    keep(std::move(report));
  }

  /// Tells the coordinator, which has `committed` steps, of those after them.
  template <class Pointer>
  void
  send_again(Pointer self, const RoleContext& context, uint64_t committed) {
    for (const auto& report : after(committed))
      self->send(context.coordinator, report);
  }

  /// What is kept once so many steps are committed. Each keeps its fence: one
  /// of a period before numbers other things.
  const std::deque<LeafReport>& after(uint64_t committed) {
    std::erase_if(reports_, [&](const LeafReport& x) {
      const bool known = x.step < committed;
      leaves_ -= known ? x.leaves.size() : 0;
      return known;
    });
    return reports_;
  }

  /// Also what is not to be sent before it is asked for.
  void keep(LeafReport report) {
    report.again = true;
    report.exchange_seconds = 0;
    report.computed_twice = false;
    leaves_ += report.leaves.size();
    reports_.push_back(std::move(report));
    while (leaves_ > max_leaves && reports_.size() > 1) {
      leaves_ -= reports_.front().leaves.size();
      reports_.pop_front();
    }
  }

  /// The epoch goes back to a version before: what came after it never was.
  void enter(bool rollback) {
    if (!rollback)
      return;
    reports_.clear();
    leaves_ = 0;
  }

private:
  std::deque<LeafReport> reports_;
  size_t leaves_ = 0;
};

} // namespace troupe
