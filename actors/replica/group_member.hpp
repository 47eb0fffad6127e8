#pragma once

#include "actors/replica/meeting.hpp"
#include "actors/replica/step_outcome.hpp"
#include "actors/role/context.hpp"
#include "actors/role/epoch_gate.hpp"
#include "actors/role/snapshot_outbox.hpp"

#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace troupe {

/// What roles share that take their steps on an executor together with the
/// other members of an epoch, whatever their steps are (ReplicaSteps,
/// DenseSteps, NormGroup):
///
///   Propose --leave()--> what is held, for the seal
///   Activate --meet()--> the group, to begin the epoch with
///   a step's outcome --can_go_on()--> the next step, or LinkLost, or Trouble
///
/// All that it is made with must live as long as the actor.
template <class Pointer, class Steps>
class GroupMember {
public:
  GroupMember(Pointer self, const RoleContext& context, const EpochGate& gate,
              SnapshotOutbox& outbox, const std::shared_ptr<Executor>& executor,
              Steps& steps)
    : self_(self),
      context_(context),
      gate_(gate),
      outbox_(outbox),
      executor_(executor),
      steps_(steps) {}

  /// Leaves the epoch. held() is called on the executor, when that is done with
  /// the step in hand: then what was computed and summed stands; and then(held)
  /// here, unless another epoch is proposed meanwhile.
  template <class Held, class Then>
  void leave(const Fence& proposed, Held held, Then then) {
    outbox_.seal(proposed);
    steps_.group().abort("the epoch has ended");
    pause_supply(true); // it may be waited for longer than a seal may take
    run_on(*executor_, self_, std::move(held),
           [this, proposed, then = std::move(then)](auto& found) {
             if (gate_.is_pending(proposed))
               then(found);
           });
  }

  /// The next epoch begins: samples are waited for again.
  void begin() { pause_supply(false); }

  /// Forms the group of the epoch of `wish`; then(group) when it is there, if
  /// the epoch is still wanted and can be begun.
  template <class Then>
  void meet(GroupWish wish, Then then) {
    const auto fence = wish.fence;
    steps_.group().expect();
    form_group(
      self_, *context_.groups, std::move(wish), met_, cut_off_,
      [this](uint32_t rank, const std::string& reason) {
        steps_.group().lost(rank, reason);
      },
      [this, fence,
       then = std::move(then)](const std::shared_ptr<ReplicaGroup>& group) {
        if (!gate_.is_pending(fence))
          return;
        if (group->hopeless)
          trouble(group->error);
        else if (!group->error.empty())
          lost(fence, group->error);
        else
          then(group);
      });
  }

  /// Tells the coordinator what cannot go on, the job or this epoch; returns
  /// whether the member has what it was to have.
  bool can_go_on(const Fence& fence, const StepOutcome& outcome) {
    if (!outcome.trouble.empty())
      trouble(outcome.trouble);
    else if (!outcome.failure.empty())
      lost(fence, outcome.failure);
    return outcome.taken;
  }

  void show(const std::vector<SnapshotSlice>& slices) {
    for (const auto& slice : slices)
      outbox_.add(slice);
  }
  /// The run ends at what is here, which the step to it did not know.
  void show_end() {
    run_on(
      *executor_, self_, [this] { return steps_.snapshot(); },
      [this](const auto& slices) { show(slices); });
  }
  void want(const SnapshotRequest& request) {
    if (gate_.is_active(request.fence) || gate_.is_pending(request.fence))
      steps_.want(request.version);
  }

private:
  void pause_supply(bool on) {
    if (context_.data.train) // some simulations need none
      context_.data.train->pause_supply(on);
  }

  /// This epoch leads nowhere.
  void lost(const Fence& fence, const std::string& reason) {
    self_->send(context_.coordinator,
                LinkLost{fence, context_.role, reason, cut_off_.roles()});
  }
  void trouble(const std::string& line) {
    self_->send(context_.coordinator,
                Trouble{context_.job_id, context_.role, line});
  }

  Pointer self_;
  const RoleContext& context_;
  const EpochGate& gate_;
  SnapshotOutbox& outbox_;
  const std::shared_ptr<Executor>& executor_;
  Steps& steps_;
  CutOff cut_off_;
  Fence met_; ///< of the newest group
};

} // namespace troupe
