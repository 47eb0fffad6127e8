#include "strategies/role_names.hpp"

#include <utility>

namespace troupe {
namespace {

std::string name_of(const RoleProcess& who) {
  return "process " + std::to_string(who.process) + " on "
         + (who.host.empty() ? "this host" : who.host);
}

} // namespace

void RoleNames::expect(std::set<RoleId> roles, uint64_t until_ms) {
  expected_ = std::move(roles);
  expected_until_ms_ = until_ms;
}

RoleNames::Verdict RoleNames::look(RoleId role, const RoleProcess& who,
                                   uint64_t asked_ms, uint64_t heard_ms,
                                   uint64_t now_ms) const {
  if (const auto held = held_.find(role);
      held != held_.end() && held->second != who) { // its own it may take again
    if (heard_ms < asked_ms + options_.sign_ms)
      return {Kind::waits, {}};
    return {Kind::refused, to_string(role)
                             + " is there already: " + name_of(held->second)
                             + " is it, and lives; end that one first, or "
                               "start a role of another name"};
  }
  if (const auto claim = claimed_.find(role);
      claim != claimed_.end() && claim->second.who != who
      && now_ms < claim->second.since_ms + options_.claim_ms) {
    if (now_ms < asked_ms + options_.claim_wait_ms)
      return {Kind::waits, {}};
    return {Kind::refused,
            to_string(role) + " is there already: " + name_of(claim->second.who)
              + " is starting as it; end that one first, or "
                "start a role of another name"};
  }
  if (expected_.contains(role) && now_ms < expected_until_ms_)
    return {Kind::waits, {}};
  return {};
}

void RoleNames::claim(RoleId role, const RoleProcess& who, uint64_t now_ms) {
  claimed_[role] = {who, now_ms};
}

void RoleNames::joined(RoleId role, const RoleProcess& who) {
  held_[role] = who;
  claimed_.erase(role);
  expected_.erase(role);
}

bool RoleNames::died(RoleId role, const RoleProcess& who) {
  if (const auto claim = claimed_.find(role);
      claim != claimed_.end() && claim->second.who == who)
    claimed_.erase(claim);
  const auto held = held_.find(role);
  if (held == held_.end())
    expected_.erase(role);
  return held != held_.end() && who.process != 0 && held->second == who;
}

} // namespace troupe
