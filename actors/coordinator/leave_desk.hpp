#pragma once

#include "actors/wire/interfaces.hpp"
#include "strategies/leave_book.hpp"

#include <map>
#include <set>
#include <string>
#include <utility>

namespace troupe {

/// Roles that were told to leave, and the answers that they wait for. Owner:
/// the coordinator's actor.
class LeaveDesk {
public:
  using Promise = caf::typed_response_promise<Note>;

  void ask(const LeaveRequest& request, const Promise& promise,
           uint64_t now_ms) {
    book_.ask(request.role, request.why, now_ms);
    answer(request.role, {"asked again"});
    asked_[request.role] = promise;
  }
  /// It died, or was left out.
  void forget(RoleId role) {
    book_.forget(role);
    answer(role, {"gone"});
  }
  LeaveBook::Verdict look(const std::set<RoleId>& roles, uint64_t now_ms) {
    return book_.look(roles, now_ms);
  }
  void answer(RoleId role, const Note& note) {
    if (auto found = asked_.extract(role))
      found.mapped().deliver(note);
  }
  void refuse(RoleId role, const std::string& why) {
    if (auto found = asked_.extract(role))
      found.mapped().deliver(caf::make_error(caf::sec::invalid_argument, why));
  }
  /// The run is ending: they stay until it is over.
  void end() {
    book_ = {};
    for (auto& [role, promise] : std::exchange(asked_, {}))
      promise.deliver(Note{"the run is ending"});
  }

private:
  LeaveBook book_;
  std::map<RoleId, Promise> asked_;
};

} // namespace troupe
