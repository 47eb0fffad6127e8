#pragma once

#include "actors/replica/group.hpp"
#include "actors/replica/sums.hpp"
#include "actors/wire/interfaces.hpp"

#include <functional>
#include <utility>

namespace troupe {

/// What a member that computes begins an epoch with. Members have their places
/// in order of their names.
inline ReplicaStart start_of(const Activate& activation, RoleId role) {
  ReplicaStart start;
  for (const auto& member : activation.ranks) {
    if (member.worker == role)
      start.rank = static_cast<uint32_t>(start.members.size());
    start.members.push_back({member.ranks, member.held});
  }
  return start;
}

/// Members of an epoch's group without which it does not get on.
class CutOff {
public:
  void begin(const std::vector<Member>& members) {
    members_ = members;
    roles_.clear();
  }
  void lost(uint32_t rank) { roles_.push_back(members_[rank].role); }
  const std::vector<RoleId>& roles() const { return roles_; }

private:
  std::vector<Member> members_; ///< by place
  std::vector<RoleId> roles_;
};

/// Those members, by place.
inline std::vector<Member> computing_members(const Activate& activation) {
  std::vector<Member> out;
  for (const auto& member : activation.members)
    if (member.role.kind == RoleKind::worker)
      out.push_back(member);
  return out;
}

/// Forms the group that `wish` describes, but for who is told of a peer's end;
/// it is the newest, `met`, from now on; `cut_off` is told of its members.
/// lost(rank, reason), of the newest group, and then(group) are called in the
/// actor's context, never after it has ended.
template <class Self, class Lost, class Then>
void form_group(Self* self, GroupMaker& groups, GroupWish wish, Fence& met,
                CutOff& cut_off, Lost lost, Then then) {
  auto handle = caf::actor_cast<caf::weak_actor_ptr>(self);
  const auto tell = [handle](std::function<void()> what) {
    if (auto actor = handle.lock())
      caf::anon_send(caf::actor_cast<caf::actor>(actor),
                     Completion{std::move(what)});
  };
  met = wish.fence;
  cut_off.begin(wish.members);
  wish.on_down = [tell, lost, &met, &cut_off, fence = wish.fence](
                   uint32_t rank, const std::string& reason) {
    tell([lost, &met, &cut_off, fence, rank, reason] {
      if (met != fence)
        return;
      cut_off.lost(rank);
      lost(rank, reason);
    });
  };
  groups.form(std::move(wish), [tell, then, &met, &cut_off, fence = met](
                                 std::shared_ptr<ReplicaGroup> group) {
    tell([then, &met, &cut_off, fence, group] {
      for (auto rank : group->missing)
        if (met == fence)
          cut_off.lost(rank);
      then(group);
    });
  });
}

} // namespace troupe
