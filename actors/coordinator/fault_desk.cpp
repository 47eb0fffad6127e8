#include "actors/coordinator/fault_desk.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <utility>

namespace troupe {
namespace {

/// Errors: empty, where one of them is not known.
std::deque<StepPhase> read_phases(const std::string& text,
                                  const std::vector<StepPhase>& known) {
  std::deque<StepPhase> phases;
  for (size_t begin = 0; begin <= text.size();) {
    const auto end = std::min(text.find(',', begin), text.size());
    const auto phase = step_phase(text.substr(begin, end - begin));
    if (std::ranges::find(known, phase) == known.end())
      return {};
    phases.push_back(phase);
    begin = end + 1;
  }
  return phases;
}

/// What the journal takes, at most, to be written once there is space again.
constexpr std::chrono::milliseconds settle_period{500};
/// What a sync takes that began when the disk was slow.
constexpr std::chrono::milliseconds slow_settle_period{1'500};

std::string list_of(const std::vector<StepPhase>& phases) {
  std::string out;
  for (auto phase : phases)
    out += (out.empty() ? "" : ", ") + to_string(phase);
  return out;
}

} // namespace

caf::result<Note>
FaultDesk::inject(const InjectFault& fault, const role_actor& actor,
                  const std::function<bool(StepPhase)>& passes,
                  Clock::time_point now) {
  const auto refuse = [](const std::string& why) {
    return caf::make_error(caf::sec::invalid_argument, why);
  };
  const auto role = to_string(fault.role);
  // Which of them a shard goes through changes with its chains.
  auto known = phases_of(fault.role.kind);
  if (fault.role.kind != RoleKind::shard)
    std::erase_if(known, [&](StepPhase phase) { return !passes(phase); });
  auto phases = read_phases(fault.phases, known);
  if (phases.empty())
    return refuse(role + " has no phase " + fault.phases + ", but "
                  + list_of(known));
  if (!actor)
    return refuse(role + " is not there");
  if (asked_.contains(fault.role))
    return refuse(role + " has a fault to come already");
  if (!passes(phases.front()))
    return refuse(role + " does not go through " + to_string(phases.front())
                  + " as its chains stand");
  auto& asked = asked_[fault.role];
  asked.phases = std::move(phases);
  asked.after = fault.after;
  asked.kind = fault.kind;
  asked.amount = fault.amount;
  asked.deadline = now + std::chrono::milliseconds{fault.deadline_ms};
  asked.promise = self_->make_response_promise<Note>();
  arm(asked, actor);
  return asked.promise;
}

caf::result<Note> FaultDesk::inject_own(const InjectFault& fault,
                                        JobJournal& journal) {
  const auto known = phases_of(RoleKind::coordinator);
  const auto phases = read_phases(fault.phases, known);
  if (phases.size() != 1)
    return caf::make_error(caf::sec::invalid_argument,
                           "the coordinator has no phase " + fault.phases
                             + ", but " + list_of(known));
  const auto phase = phases.front();
  if (own_promise_)
    return caf::make_error(caf::sec::invalid_argument,
                           "the coordinator has a fault to come already");
  // A promise stays in this thread: its count of copies is not made for two.
  own_promise_ = self_->make_response_promise<Note>();
  const auto handle = caf::actor_cast<caf::strong_actor_ptr>(self_);
  journal.fault(phase, [this, handle, phase] {
    Completion written{[this, phase] {
      if (!own_promise_) // too late
        return;
      own_promise_->deliver(
        Note{"the coordinator is to die in " + to_string(phase)});
      if (phase == StepPhase::at_once)
        own_phase_ = phase; // when that has been sent
      else
        own_.arm({FaultKind::kill, phase});
    }};
    caf::anon_send(caf::actor_cast<caf::actor>(handle), std::move(written));
  });
  Completion too_late{[this, &journal] {
    own_.arm({});
    own_promise_.reset();
    journal.fault(StepPhase::none, {});
  }};
  self_->delayed_send(self_, std::chrono::milliseconds{fault.deadline_ms},
                      std::move(too_late));
  return *own_promise_;
}

caf::result<Note> FaultDesk::fill_disk(const InjectFault& fault,
                                       const std::shared_ptr<FullDisk>& disk,
                                       JobJournal& journal) {
  if (own_promise_ || disk->full())
    return caf::make_error(caf::sec::invalid_argument,
                           "the coordinator has a fault to come already");
  const std::chrono::milliseconds lasts{fault.amount};
  const auto before = disk->refused();
  disk->fill(lasts);
  own_promise_ = self_->make_response_promise<Note>();
  Completion past{[this, disk, before, &journal] {
    const auto refused = disk->refused() - before;
    journal.note("disk", {{"refused", refused}});
    if (refused > 0)
      own_promise_->deliver(
        Note{"the coordinator bore full-disk: " + std::to_string(refused)
             + " writes had no space"});
    else
      own_promise_->deliver(caf::make_error(caf::sec::request_timeout,
                                            "nothing was written meanwhile"));
    own_promise_.reset();
  }};
  self_->delayed_send(self_, lasts + settle_period, std::move(past));
  return *own_promise_;
}

caf::result<Note> FaultDesk::slow_disk(const InjectFault& fault,
                                       const std::shared_ptr<FullDisk>& disk,
                                       JobJournal& journal) {
  if (own_promise_ || disk->slow())
    return caf::make_error(caf::sec::invalid_argument,
                           "the coordinator has a fault to come already");
  const std::chrono::milliseconds lasts{fault.amount};
  const auto before = disk->waited();
  disk->slow_down(lasts);
  own_promise_ = self_->make_response_promise<Note>();
  journal.note("disk", {{"slow_ms", fault.amount}}); // is slow itself
  Completion past{[this, disk, before] {
    own_promise_->deliver(Note{"the coordinator bore slow-disk: "
                               + std::to_string(disk->waited() - before)
                               + " syncs took a second"});
    own_promise_.reset();
  }};
  self_->delayed_send(self_, lasts + slow_settle_period, std::move(past));
  return *own_promise_;
}

void FaultDesk::arm(Asked& asked, const role_actor& actor) {
  asked.armed = actor;
  self_->send(actor, ArmFault{job_, asked.phases.front(), asked.after,
                              asked.kind, asked.amount});
}

void FaultDesk::joined(RoleId role, const role_actor& actor) {
  if (auto asked = asked_.find(role);
      asked != asked_.end() && !asked->second.phases.empty())
    arm(asked->second, actor);
}

StepPhase FaultDesk::lost(RoleId role) {
  auto found = asked_.find(role);
  if (found == asked_.end() || found->second.phases.empty())
    return StepPhase::none;
  auto& asked = found->second;
  const auto phase = asked.phases.front();
  asked.phases.pop_front();
  asked.after = 0;
  const bool killed = asked.kind == FaultKind::kill;
  asked.died += asked.died.empty()
                  ? (killed ? "died in "
                            : "was lost by " + to_string(asked.kind) + " in ")
                  : ", then in ";
  asked.died += to_string(phase);
  return phase;
}

void FaultDesk::struck(const FaultStruck& fault) {
  const auto asked = asked_.find(fault.role);
  if (fault.job != job_ || asked == asked_.end() || asked->second.phases.empty()
      || asked->second.phases.front() != fault.phase)
    return; // it was left out meanwhile
  asked->second.promise.deliver(Note{to_string(fault.role) + " bore "
                                     + to_string(asked->second.kind) + " in "
                                     + to_string(fault.phase)});
  asked_.erase(asked);
}

void FaultDesk::whole(const std::set<RoleId>& roles) {
  for (auto role : roles)
    if (auto asked = asked_.find(role);
        asked != asked_.end() && asked->second.phases.empty()) {
      asked->second.promise.deliver(
        Note{to_string(role) + ' ' + asked->second.died + " and is back"});
      asked_.erase(asked);
    }
}

void FaultDesk::over() {
  for (auto& [role, asked] : asked_)
    asked.promise.deliver(
      caf::make_error(caf::sec::request_receiver_down, "the run is over"));
  asked_.clear();
}

void FaultDesk::tick(Clock::time_point now) {
  if (own_phase_ != StepPhase::none)
    own_.arm({FaultKind::kill, std::exchange(own_phase_, StepPhase::none)});
  for (auto next = asked_.begin(); next != asked_.end();) {
    auto& [role, asked] = *next;
    if (asked.phases.empty() || now < asked.deadline) {
      ++next;
      continue;
    }
    self_->send(asked.armed, ArmFault{job_, StepPhase::none, 0});
    asked.promise.deliver(caf::make_error(caf::sec::request_timeout,
                                          to_string(role) + " did not come to "
                                            + to_string(asked.phases.front())
                                            + " in time"));
    next = asked_.erase(next);
  }
}

} // namespace troupe
