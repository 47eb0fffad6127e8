#include "strategies/leave_book.hpp"

#include <algorithm>

namespace troupe {

void LeaveBook::ask(RoleId role, const std::string& why, uint64_t now_ms) {
  if (std::ranges::find(told_, role, &Told::role) == told_.end())
    told_.push_back({role, why, now_ms});
}

void LeaveBook::forget(RoleId role) {
  std::erase_if(told_, [&](const Told& x) { return x.role == role; });
}

bool LeaveBook::all_told(const std::set<RoleId>& roles, RoleKind kind) const {
  bool any = false;
  for (auto role : roles)
    if (role.kind == kind) {
      any = true;
      if (std::ranges::find(told_, role, &Told::role) == told_.end())
        return false;
    }
  return any;
}

LeaveBook::Verdict LeaveBook::look(const std::set<RoleId>& roles,
                                   uint64_t now_ms) {
  if (told_.empty() || now_ms - told_.front().since_ms < options_.patience_ms)
    return {};
  const auto first = told_.front();
  for (auto kind :
       {RoleKind::worker, RoleKind::shard, RoleKind::stage, RoleKind::tensor})
    if (all_told(roles, kind))
      return {Kind::end_run, first.role,
              std::string{"all "}
                + (kind == RoleKind::worker  ? "workers"
                   : kind == RoleKind::shard ? "shards"
                   : kind == RoleKind::stage ? "stages"
                                             : "members")
                + " were told to leave",
              first.why};
  told_.pop_front();
  return {Kind::leave, first.role, {}, first.why};
}

} // namespace troupe
