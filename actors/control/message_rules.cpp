#include "actors/control/message_rules.hpp"

#include "actors/wire/messages.hpp"
#include "actors/wire/messages/voting.hpp"

#include <functional>
#include <map>

namespace troupe {
namespace {

using Kind = MemberName::Kind;
using Kinds = unsigned; ///< a bit of each

constexpr Kinds bit(Kind kind) {
  return 1U << static_cast<unsigned>(kind);
}

constexpr auto coordinators = bit(Kind::coordinator);
constexpr auto workers = bit(Kind::worker) | bit(Kind::sharded);
constexpr auto shards = bit(Kind::shard) | bit(Kind::sharded);
constexpr auto roles = workers | shards | bit(Kind::stage) | bit(Kind::tensor)
                       | bit(Kind::reader) | bit(Kind::evaluator);
constexpr auto supervisors = bit(Kind::supervisor);
constexpr auto operators = supervisors | bit(Kind::operator_);
/// An evaluator judges what a run writes, and watches for its end.
constexpr auto watchers = operators | bit(Kind::evaluator);
/// A coordinator and a launcher keep a copy of the journal, too.
constexpr auto voters = bit(Kind::voter) | coordinators | supervisors;

struct Rule {
  Kinds speakers = 0;
  /// What it says of a role that is not the speaker's; empty: nothing.
  std::function<std::string(const MemberName&, const caf::message&)> differs;
};

std::string not_own(const MemberName& who, RoleId said) {
  return speaks_for(who, name_of(said)) ? "" : " for " + to_string(said);
}

class Rules {
public:
  Rules() {
    hello();
    // Joining, epochs and steps.
    of_role(roles, &Join::role);
    of_role(roles, &Sealed::role);
    of_role(roles, &CaughtUp::role);
    of_role(roles, &LinkLost::role);
    of_role(roles, &EpochPause::role);
    of_role(roles, &LeafReport::worker);
    of_role(roles, &Applied::owner);
    of_role(roles, &Paused::worker);
    of_role(workers, &LeaseRequest::worker);
    of_role(shards, &LeaseApplied::shard);
    of_role(shards, &LeaseRefused::shard);
    of_role(roles, &Trouble::role);
    of_role(roles, &MetricsReport::role);
    of_role(roles, &LeaveRequest::role);
    of_role(roles, &FaultStruck::role);
    by<SnapshotSlice, RowSnapshot, StepShares>(roles);
    by<Spreads>(roles | coordinators); // which pass it on
    by<Evaluation>(bit(Kind::evaluator));
    by<JobInfo, Propose, Activate, Pause, EndAt, SnapshotRequest, SnapshotTaken,
       Finish, LeaseGrant, Evaluate, RowPull, ArmFault>(coordinators);
    // Those around the roles.
    by<ReplaceRole, StartRole, RetireRole, Progress, DataEpochEnd, Note,
       Finished, Replanned>(coordinators);
    by<RoleDied, GiveUp, RoleGone, Remains>(supervisors);
    by<Detach>(watchers);
    by<StopRequest>(operators | coordinators);
    by<SwitchConsistency, ReshapeJob, InjectFault>(operators);
    rules_[caf::type_id_v<Attach>] = {
      watchers, [](const MemberName& who, const caf::message& x) {
        return who.kind != Kind::supervisor && x.get_as<Attach>(0).supervises
                 ? std::string{" as a supervisor"}
                 : std::string{};
      }};
    by<AskVote, ReadLog, AppendLog>(coordinators);
    by<VoteGiven, LogPage, LogTaken>(voters);
    by<caf::error>(~0U); // an answer
  }

  const Rule* of(caf::type_id_t type) const {
    const auto found = rules_.find(type);
    return found == rules_.end() ? nullptr : &found->second;
  }

private:
  template <class... Messages>
  void by(Kinds speakers) {
    ((rules_[caf::type_id_v<Messages>] = {speakers, nullptr}), ...);
  }

  template <class Message>
  void of_role(Kinds speakers, RoleId Message::*role) {
    rules_[caf::type_id_v<Message>] = {
      speakers, [role](const MemberName& who, const caf::message& x) {
        return not_own(who, x.get_as<Message>(0).*role);
      }};
  }

  /// Who is no role asks who leads, and no more.
  void hello() {
    rules_[caf::type_id_v<Hello>] = {
      roles | operators | coordinators,
      [](const MemberName& who, const caf::message& x) {
        const auto& said = x.get_as<Hello>(0);
        const bool asks = said.again && said.role.kind == RoleKind::coordinator
                          && (bit(who.kind) & roles) == 0;
        return asks ? std::string{} : not_own(who, said.role);
      }};
  }

  std::map<caf::type_id_t, Rule> rules_;
};

/// A message that is added to the list needs a rule above, or to travel on
/// links only; then count it here.
constexpr int messages_considered = 86;
static_assert(caf::id_block::troupe::end - caf::id_block::troupe::begin
                == messages_considered,
              "say who may send the new message, in message_rules.cpp");

const Rule* rule_of(caf::type_id_t type) {
  static const Rules rules;
  return rules.of(type);
}

std::string word_of(caf::type_id_t type) {
  const auto name = caf::query_type_name(type);
  const auto text = std::string{name.begin(), name.end()};
  const auto colon = text.rfind(':');
  return colon == std::string::npos ? text : text.substr(colon + 1);
}

} // namespace

bool names_a_role(caf::type_id_t type) {
  const auto* rule = rule_of(type);
  return rule != nullptr && rule->differs;
}

std::string refusal(const MemberName& who, caf::type_id_list said) {
  if (said.size() == 0)
    return {}; // the answer to a request that has none
  const auto* rule = said.size() == 1 ? rule_of(said[0]) : nullptr;
  if (rule != nullptr && (rule->speakers & bit(who.kind)) != 0)
    return {};
  return to_string(who) + " may not send " + word_of(said[0]);
}

std::string refusal(const MemberName& who, const caf::message& said) {
  auto why = refusal(who, said.types());
  if (!why.empty() || said.size() != 1 || !names_a_role(said.types()[0]))
    return why;
  const auto differs = rule_of(said.types()[0])->differs(who, said);
  return differs.empty() ? ""
                         : to_string(who) + " may not send "
                             + word_of(said.types()[0]) + differs;
}

} // namespace troupe
