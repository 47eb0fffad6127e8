#include "strategies/membership.hpp"

#include "strategies/require.hpp"

#include <algorithm>
#include <utility>

namespace troupe {

namespace {

uint64_t elapsed(uint64_t since_ms, uint64_t now_ms) {
  return now_ms > since_ms ? now_ms - since_ms : 0;
}

/// Prints a duration for people: "30 s" or "250 ms".
std::string duration(uint64_t ms) {
  return ms % 1000 == 0 ? std::to_string(ms / 1000) + " s"
                        : std::to_string(ms) + " ms";
}

} // namespace

Membership::Membership(Options options, uint64_t now_ms)
  : options_(std::move(options)),
    epoch_(options_.epoch),
    begun_(options_.epoch > 0),
    gather_(options_.gather),
    forming_since_ms_(now_ms) {
  strategies::require(!options_.roles.empty(), "an epoch needs a member");
  absent_ = {options_.roles.begin(), options_.roles.end()};
}

Membership::Actions Membership::join(RoleId role, uint64_t incarnation,
                                     uint64_t now_ms) {
  if (state_ == State::failed
      || std::ranges::find(options_.roles, role) == options_.roles.end())
    return {};
  if (auto i = present_.find(role); i != present_.end()) {
    if (incarnation <= i->second)
      return {};
    remove(role, now_ms);
  }
  if (is_gone(role, incarnation))
    return {};
  present_.emplace(role, incarnation);
  absent_.erase(role);
  if (!begun_ && !gone_.contains(role))
    forming_since_ms_ = now_ms;
  gather_.erase(role);
  dead_.erase(role);
  return go_on(cause(to_string(role) + " has joined"), now_ms);
}

bool Membership::is_gone(RoleId role, uint64_t incarnation) const {
  auto known = gone_.find(role);
  return known != gone_.end() && incarnation <= known->second;
}

void Membership::expect(RoleId role) {
  if (std::ranges::find(options_.roles, role) != options_.roles.end())
    return;
  options_.roles.push_back(role);
  absent_.insert(role);
}

Membership::Actions Membership::dismiss(RoleId role, uint64_t now_ms) {
  std::erase(options_.roles, role);
  const bool was_present = present_.contains(role);
  if (was_present)
    remove(role, now_ms);
  absent_.erase(role);
  gather_.erase(role);
  // Those who were waited for may have been all that an epoch lacked.
  return was_present || state_ == State::forming
           ? go_on(cause(to_string(role) + " has left"), now_ms)
           : Actions{};
}

Membership::Actions Membership::lost(RoleId role, uint64_t incarnation,
                                     uint64_t now_ms) {
  auto i = present_.find(role);
  if (state_ != State::failed && i != present_.end()
      && i->second == incarnation) {
    remove(role, now_ms);
    return go_on(to_string(role) + " was lost", now_ms);
  }
  return {};
}

Membership::Actions Membership::died(RoleId role, uint64_t now_ms) {
  if (!absent_.contains(role) || !dead_.insert(role).second)
    return {};
  // It may have been the one that an epoch waits for.
  return state_ == State::forming && waits_
           ? go_on(to_string(role) + " is not waited for: it is dead", now_ms)
           : Actions{};
}

Membership::Actions Membership::renew(std::string cause, uint64_t now_ms) {
  return state_ == State::active ? propose(std::move(cause), now_ms)
                                 : Actions{};
}

Membership::Actions Membership::sealed(RoleId role, uint64_t incarnation,
                                       uint64_t epoch, uint64_t now_ms) {
  auto i = present_.find(role);
  if (epoch != epoch_ || i == present_.end() || i->second != incarnation)
    return {};
  owes_since_.erase(role); // its pass is over, whoever was lost meanwhile
  if (state_ != State::sealing)
    return {};
  awaiting_seal_.erase(role);
  if (!awaiting_seal_.empty())
    return {};
  if (auto roles = awaited(); !roles.empty()) {
    state_ = State::forming;
    if (!std::exchange(waits_, true))
      forming_since_ms_ = now_ms;
    return {Await{std::move(roles)}};
  }
  state_ = State::active;
  begun_ = leads_ = true;
  waits_ = false;
  return {Activate{epoch_, cause_}};
}

std::optional<uint64_t> Membership::overdue(RoleId role,
                                            uint64_t now_ms) const {
  const bool busy = options_.silent_ms
                    && options_.silent_ms(role) < options_.seal_deadline_ms;
  const auto deadline = busy ? options_.busy_seal_deadline_ms
                             : options_.seal_deadline_ms;
  const auto since = busy ? owes_since_.at(role) : proposed_ms_;
  return elapsed(since, now_ms) >= deadline ? std::optional{deadline}
                                            : std::nullopt;
}

Membership::Actions Membership::tick(uint64_t now_ms) {
  Actions out;
  if (state_ == State::sealing) {
    std::string cause;
    for (auto role : std::set{awaiting_seal_}) {
      const auto deadline = overdue(role, now_ms);
      if (!deadline)
        continue;
      auto incarnation = present_.at(role);
      remove(role, now_ms);
      cause = to_string(role) + " did not seal epoch " + std::to_string(epoch_)
              + " within " + duration(*deadline);
      out.push_back(LeaveOut{role, incarnation, cause});
    }
    if (!out.empty())
      for (auto& action : go_on(std::move(cause), now_ms))
        out.push_back(std::move(action));
    return out;
  }
  if (!gather_.empty() && state_ == State::forming
      && elapsed(forming_since_ms_, now_ms) >= options_.gather_deadline_ms) {
    gather_.clear();
    return go_on(cause("nobody else is waited for"), now_ms);
  }
  const bool past = elapsed(forming_since_ms_, now_ms)
                    >= options_.join_deadline_ms;
  if (state_ == State::forming && absent_.empty() && !begun_
      && (past || enough()))
    return propose(cause("all are there"), now_ms);
  if (state_ != State::forming || !past)
    return out;
  const auto late = absent();
  auto again = std::ranges::all_of(late, [this](RoleId role) {
    return gone_.contains(role);
  });
  state_ = State::failed;
  const auto all = std::to_string(late.size() + present_.size());
  out.push_back(
    Fail{to_string(late) + " did not join " + (again ? "again " : "")
         + "within " + duration(options_.join_deadline_ms)
         + (begun_ || present_.empty()
              ? ""
              : " of the last of " + std::to_string(present_.size()) + " of "
                  + all + " roles that did")
         + (options_.starts_roles && options_.starts_roles()
              ? ": look at their last output above and in --log-dir"
              : ": look at the last output there, start what is missing with "
                "`troupe role "
                  + (options_.paired
                       ? "sharded:" + std::to_string(late.front().index)
                       : to_string(late.front()))
                  + '`')
         + ", or give more time with --join-deadline-ms"});
  return out;
}

std::vector<RoleId> Membership::absent() const {
  return {absent_.begin(), absent_.end()};
}

std::vector<RoleId> Membership::awaited() const {
  std::vector<RoleId> out;
  if (begun_ && options_.awaited && !absent_.empty())
    for (auto role : options_.awaited())
      if (absent_.contains(role) && !dead_.contains(role))
        out.push_back(role);
  return out;
}

bool Membership::enough() const {
  if (absent_.empty())
    return begun_ || !options_.may_begin || options_.may_begin();
  if (!begun_ || !options_.viable || !gather_.empty())
    return false;
  std::set<RoleId> members;
  for (auto [role, incarnation] : present_)
    members.insert(role);
  return options_.viable(members);
}

Membership::Actions Membership::go_on(std::string cause, uint64_t now_ms) {
  return enough() ? propose(std::move(cause), now_ms) : Actions{};
}

std::string Membership::cause(std::string otherwise) const {
  if (leads_)
    return otherwise;
  return options_.epoch > 0 ? "another coordinator leads" : "the run begins";
}

Membership::Actions Membership::propose(std::string cause, uint64_t now_ms) {
  state_ = State::sealing;
  proposed_ms_ = now_ms;
  cause_ = std::move(cause);
  Propose out{++epoch_, {}, cause_};
  for (auto [role, incarnation] : present_)
    out.members.push_back(role);
  awaiting_seal_ = {out.members.begin(), out.members.end()};
  for (auto role : out.members)
    owes_since_.try_emplace(role, now_ms);
  return {std::move(out)};
}

void Membership::remove(RoleId role, uint64_t now_ms) {
  auto i = present_.find(role);
  gone_[role] = i->second;
  present_.erase(i);
  owes_since_.erase(role);
  absent_.insert(role);
  awaiting_seal_.clear();
  if (state_ != State::forming)
    forming_since_ms_ = now_ms;
  state_ = State::forming;
}

} // namespace troupe
