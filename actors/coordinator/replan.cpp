#include "actors/coordinator/remains.hpp"
#include "actors/coordinator/state.hpp"

#include <exception>
#include <utility>

// A member of a split model that is started no more: its layers are dealt anew
// to the devices that are left. All members end; what their memory has is kept
// as a checkpoint, and the coordinator that follows this one goes on from that
// with another mesh, under the same journal.

namespace troupe {

struct CoordinatorState::LayoutLeft {
  uint32_t devices = 0;
  std::optional<Snapshot>
    whole;             ///< what the members have left; none: too little
  std::string mistake; ///< empty: there is a layout
  CoordinatorOptions::NewLayout layout;
};

/// Why a job ends with a member that is gone; empty: it goes on without.
std::string CoordinatorState::replan_refusal() const {
  if (!options_.replan)
    return "--on-loss is end";
  if (!begun_)
    return "the first step had not begun";
  if (course_.is_over() || gone_)
    return "the run is over";
  if (devices_ < 2)
    return "there is no other device";
  return {};
}

caf::result<Note> CoordinatorState::on(const RoleGone& gone) {
  if (const auto why = replan_refusal(); !why.empty())
    return caf::make_error(caf::sec::invalid_argument, why);
  if (const auto known = present_.find(gone.role); known != present_.end())
    remove_member(gone.role, known->second.incarnation);
  gone_ = gone;
  proposed_ = fence_ = {};
  note(gone.how);
  return Note{"all members are to end"};
}

caf::result<Replanned> CoordinatorState::on(const Remains& remains) {
  if (!gone_)
    return caf::make_error(caf::sec::invalid_argument, "nobody is gone");
  if (remains.devices == 0)
    return caf::make_error(caf::sec::invalid_argument, "no device is left");
  const auto asks = self_->make_response_promise<Replanned>();
  run_on(
    *outputs_, self_,
    [job = job_, id = options_.job_id, states = remains.states,
     lay_out = options_.replan, devices = remains.devices] {
      LayoutLeft left;
      left.devices = devices;
      left.whole = what_remains(*job, id, states);
      try {
        left.layout = lay_out(devices);
      } catch (const std::exception& none) {
        left.mistake = none.what();
      }
      return left;
    },
    [this, asks](const LayoutLeft& left) { keep_remains(left, asks); });
  return asks;
}

void CoordinatorState::keep_remains(const LayoutLeft& left, Replanner asks) {
  const auto newest = checkpoints_.newest_whole();
  std::string mistake = left.mistake;
  if (mistake.empty() && !left.whole && !newest)
    mistake = "nobody has a copy of what it held, and there is no checkpoint";
  if (!mistake.empty()) {
    asks.deliver(caf::make_error(caf::sec::invalid_argument, mistake));
    return;
  }
  if (!left.whole || (newest && newest->step > left.whole->version)) {
    go_on_from(*newest, left, std::move(asks));
    return;
  }
  checkpoints_.keep(*left.whole, switch_.now(), "replan",
                    [this, left, asks](const CheckpointOutcome& outcome) {
                      auto promise = asks;
                      if (outcome.failure.empty())
                        go_on_from(outcome, left, promise);
                      else
                        promise.deliver(caf::make_error(
                          caf::sec::invalid_argument, outcome.failure));
                    });
}

/// The supervisor ends this coordinator once it is told.
void CoordinatorState::go_on_from(const CheckpointOutcome& from,
                                  const LayoutLeft& left, Replanner asks) {
  std::string lost = "no step is undone";
  if (from.step >= steps_) {
    commits_.owners({{0, from.step}});
    committed(commits_.forgive(from.step));
  } else {
    const auto undone = commits_.rollback(from.step);
    lost = std::to_string(undone)
           + (undone == 1 ? " step is undone" : " steps are undone");
    steps_ = from.step;
    record_.rolled_back(from.step, undone);
    journal_.rolled_back(from.step, undone,
                         "nobody has a copy of what " + to_string(gone_->role)
                           + " held",
                         record_.counts(commits_));
  }
  write_commits();
  const auto reason = to_string(gone_->role)
                      + " is gone for good: its layers are dealt anew, "
                      + left.layout.line + "; from step "
                      + std::to_string(from.step) + ", " + lost;
  note(reason);
  for (const auto& [step, end] : data_epoch_ends_) // whose evaluation is lost
    if (step <= from.step)
      observers_.tell(end);
  ReplanRow row{gone_->role, left.devices, left.layout.kept,
                from.folder, from.step,    reason};
  const auto handle = caf::actor_cast<caf::strong_actor_ptr>(self_);
  journal_.replanned(row, [this, handle, asks, layout = row.layout] {
    caf::anon_send(caf::actor_cast<caf::actor>(handle),
                   Completion{[asks, layout]() mutable {
                     asks.deliver(Replanned{layout});
                   }});
  });
}

} // namespace troupe
