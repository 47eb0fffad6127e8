#pragma once

#include "strategies/dead_links.hpp"

#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace troupe {

/// Who was a member, was left out and is not back, or was told to go; and links
/// that are dead.
class LeftOutDesk {
public:
  /// A process that was let go: it need not come back.
  struct Dismissed {
    uint64_t incarnation;
    bool told = false;
  };
  /// A process that cannot take part.
  struct TurnedAway {
    uint64_t incarnation;
    std::string why;
  };

  /// Returns whether that is news; the first reason stays.
  bool lost(RoleId role, const std::string& why) {
    links.lost(role);
    return why_.try_emplace(role, why).second;
  }
  void left_out(RoleId role, const std::string& why) { why_[role] = why; }
  /// Whether somebody is to be told that a role is left out: for the same
  /// reason again and again each time after twice as long, until it is back.
  bool is_to_be_told(RoleId role, const std::string& why, uint64_t now_ms) {
    constexpr uint64_t first_ms = 10'000, longest_ms = 600'000;
    auto& told = last_told_[role];
    if (told.why == why && now_ms < told.next_ms)
      return false;
    told.pause_ms = told.why != why ? first_ms
                                    : std::min(2 * told.pause_ms, longest_ms);
    told.why = why;
    told.next_ms = now_ms + told.pause_ms;
    return true;
  }
  /// It is a member again; returns whether it was left out.
  bool back(RoleId role, uint64_t now_ms) {
    links.readmitted(role, now_ms);
    const bool was_out = why_.erase(role) > 0;
    last_told_.erase(role);
    returned_ = returned_ || was_out;
    return was_out;
  }
  /// Somebody came back since the last epoch began: what it had reported of
  /// the step that it holds may have died with its connection.
  bool returned() const { return returned_; }
  void begun() { returned_ = false; }
  void dismiss(RoleId role, uint64_t incarnation) {
    why_.erase(role);
    dismissed_[role] = {incarnation};
  }
  /// It was told so.
  void told_to_go(RoleId role) {
    if (auto found = dismissed_.find(role); found != dismissed_.end())
      found->second.told = true;
  }
  /// Null: that process is to take part, as far as it is known here.
  const Dismissed* dismissed(RoleId role, uint64_t incarnation) const {
    const auto found = dismissed_.find(role);
    return found == dismissed_.end() || found->second.incarnation < incarnation
             ? nullptr
             : &found->second;
  }
  /// Of a role that is in no epoch: membership knows of the others.
  void gone(RoleId role, uint64_t incarnation) { gone_[role] = incarnation; }
  /// Whether that process, or a newer one, is.
  bool is_gone(RoleId role, uint64_t incarnation) const {
    const auto found = gone_.find(role);
    return found != gone_.end() && incarnation <= found->second;
  }
  void turn_away(RoleId role, uint64_t incarnation, const std::string& why) {
    turned_away_[role] = {incarnation, why};
  }
  /// Null: that process of the role was not turned away.
  const std::string* turned_away(RoleId role, uint64_t incarnation) const {
    const auto found = turned_away_.find(role);
    return found != turned_away_.end()
               && found->second.incarnation == incarnation
             ? &found->second.why
             : nullptr;
  }
  /// Null: it is not left out.
  const std::string* why(RoleId role) const {
    const auto found = why_.find(role);
    return found == why_.end() ? nullptr : &found->second;
  }

  /// A step was committed: what was told of links is no longer so.
  void committed() {
    links.committed();
    told_.clear();
    stuck_ = false;
  }
  /// Whether it has not been told since the last commit that the role has lost
  /// its links to those; they fail alike in epoch after epoch.
  bool is_news(RoleId role, const std::vector<RoleId>& peers) {
    return told_.emplace(role, peers).second;
  }
  /// The same of links that nobody can be spared for.
  bool stuck_is_news() { return !std::exchange(stuck_, true); }

  DeadLinks links;

private:
  struct LastTold {
    std::string why;
    uint64_t next_ms = 0, pause_ms = 0;
  };

  std::map<RoleId, LastTold> last_told_;
  std::set<std::pair<RoleId, std::vector<RoleId>>> told_;
  bool stuck_ = false;
  std::map<RoleId, std::string> why_;
  std::map<RoleId, Dismissed> dismissed_;
  std::map<RoleId, TurnedAway> turned_away_;
  std::map<RoleId, uint64_t> gone_;
  bool returned_ = false;
};

} // namespace troupe
