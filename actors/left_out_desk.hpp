#pragma once

#include "strategies/dead_links.hpp"

#include <map>
#include <string>

namespace troupe {

/// Who was a member, was left out and is not back; and links that are dead.
class LeftOutDesk {
public:
  /// Returns whether that is news; the first reason stays.
  bool lost(RoleId role, const std::string& why) {
    links.lost(role);
    return why_.try_emplace(role, why).second;
  }
  void left_out(RoleId role, const std::string& why) { why_[role] = why; }
  /// It is a member again; returns whether it was left out.
  bool back(RoleId role, uint64_t now_ms) {
    links.readmitted(role, now_ms);
    return why_.erase(role) > 0;
  }
  void forget(RoleId role) { why_.erase(role); }
  /// Null: it is not left out.
  const std::string* why(RoleId role) const {
    const auto found = why_.find(role);
    return found == why_.end() ? nullptr : &found->second;
  }

  DeadLinks links;

private:
  std::map<RoleId, std::string> why_;
};

} // namespace troupe
