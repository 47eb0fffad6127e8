#include "actors/shard/shard.hpp"

#include "actors/job/beginning.hpp"
#include "actors/job/chain_routes.hpp"
#include "actors/links/link_proxy.hpp"
#include "actors/role/behavior.hpp"
#include "actors/role/seal.hpp"
#include "actors/shard/lease_slices.hpp"
#include "actors/shard/step_slices.hpp"
#include "kernels/base/error.hpp"

#include <set>
#include <string>
#include <utility>
#include <vector>

namespace troupe {
namespace {

std::unique_ptr<ShardPart> make_part(ShardContext& shard) {
  if (shard.period.async)
    return std::make_unique<LeaseSlices>(shard);
  return std::make_unique<StepSlices>(shard);
}

/// The shard's messages and its epochs; its part does the rest.
class ShardState {
public:
  static inline const char* name = "shard";

  ShardState(shard_actor::pointer self, RoleContext context,
             std::shared_ptr<ShardStore> store)
    : shard_(self, std::move(context), std::move(store)),
      part_(make_part(shard_)) {}

  ~ShardState() {
    shard_.executor.reset(); // its task writes what is destroyed below
  }

  shard_actor::behavior_type make_behavior() {
    auto behavior = role_behavior(
      shard_.self, shard_.context, [this](const Propose& x) { on(x); },
      [this](const Activate& x) { on(x); }, [](const Pause&) {},
      [this](const EndAt& x) { when_active(x); },
      [this](const SnapshotRequest& x) { when_active(x); },
      [this](const SnapshotTaken& x) {
        shard_.outbox.took(x);
        shard_.snapshots.took(shard_, x);
      },
      [this](const Pull& x) { when_active(x); },
      [this](const RowPull& x) {
        if (x.worker.kind == RoleKind::evaluator)
          return shard_.gate.admit(x.fence, [this, x] {
            shard_.snapshots.evaluation_reads(shard_.job, x);
          });
        when_active(x);
      },
      [this](const Push& x) { when_active(x); },
      [this](const LeasePush& x) { when_active(x); },
      [this](const BlockSums& x) { when_active(x); },
      [this](const Scalars& x) { when_active(x); },
      [this](const ChainJoin& x) { when_active(x); },
      [this](const SliceCopy& x) { when_active(x); },
      [this](const ChainUpdate& x) { when_active(x); },
      [this](const ChainScalars& x) { when_active(x); },
      [this](const ScalarsHeld& x) { when_active(x); },
      [this](const AskShares& x) { when_active(x); },
      [this](const StepShares& x) { when_active(x); });
    on_lost_peer(shard_.self, shard_.context.coordinator,
                 [this](const caf::down_msg& x) {
                   if (auto peer = shard_.peers.forget(x.source))
                     ask_for_links(shard_.self, shard_.context, shard_.gate,
                                   *peer, why_link_ended(x.reason));
                 });
    return behavior;
  }

private:
  /// A worker may learn of the new epoch before this shard does: what it sends
  /// then waits for the activation. Anything else of another epoch is dropped.
  template <class Message>
  void when_active(const Message& message) {
    shard_.gate.admit(message.fence, [this, message = ShardMessage{message},
                                      from = shard_.self->current_sender()] {
      part_->take(message, from);
    });
  }

  /// Seals once the executor is done with what it was given, so that the
  /// report is of a state that stands.
  void on(const Propose& proposal) {
    if (!shard_.gate.propose(proposal.fence))
      return;
    shard_.pause.begin();
    shard_.outbox.seal(proposal.fence);
    follow(proposal.consistency); // this may be a new process
    part_->leave_epoch();
    shard_.run([] { return true; },
               [this, fence = proposal.fence](bool) {
                 if (shard_.gate.is_pending(fence))
                   seal();
               });
  }

  /// Another period has a part of its own. Nothing is on the executor: a period
  /// ends when all is applied, and a new process has not begun.
  void follow(const Consistency& period) {
    const bool same = period.period == shard_.period.period
                      && period.count_from() == shard_.period.count_from();
    shard_.period = period;
    if (same)
      return;
    shard_.store->count_from(period.count_from());
    part_ = make_part(shard_);
  }

  void seal() {
    std::vector<SliceState> held;
    part_->seal(held);
    send_seal(shard_.self, shard_.context, shard_.gate.newest(),
              std::move(held));
  }

  void on(const Activate& activation) {
    if (!shard_.gate.enter(activation.fence))
      return;
    follow(activation.consistency);
    forget_others(activation);
    shard_.outbox.enter(activation.rollback);
    const auto chains = chains_of(activation, shard_.job.plan);
    const auto needed = neighbours_of(chains, shard_.context.role.index,
                                      !shard_.period.async
                                        && ScalarDesk::needed(shard_.job));
    auto members = activation.members;
    std::erase_if(members, [&](const Member& x) {
      return x.role.kind != RoleKind::shard || !needed.contains(x.role.index);
    });
    shard_.peers.connect(
      shard_.self, activation.fence, members, RoleKind::shard,
      [this, activation] { start_epoch(activation); },
      [this](RoleId peer, const std::string& line) {
        ask_for_links(shard_.self, shard_.context, shard_.gate, peer, line);
      });
  }

  /// Who is no member may not have taken all that it pulled, and would get the
  /// rest of it from memory that this epoch writes.
  void forget_others(const Activate& activation) {
    std::set<std::string> names;
    for (const auto& member : activation.members)
      names.insert(to_string(member.role));
    if (shard_.context.links)
      shard_.context.links->keep_only(names);
  }

  void start_epoch(const Activate& activation) {
    if (!shard_.gate.is_pending(activation.fence))
      return;
    if (!activation.rollback) {
      enter_epoch(activation);
      return;
    }
    shard_.run([this, activation] { return go_back(activation); },
               [this, activation](const std::string& trouble) {
                 if (!shard_.gate.is_pending(activation.fence))
                   return;
                 if (!trouble.empty())
                   shard_.self->send(shard_.context.coordinator,
                                     Trouble{shard_.context.job_id,
                                             shard_.context.role, trouble});
                 else
                   enter_epoch(activation);
               });
  }

  /// Runs on the executor. Returns why it cannot.
  std::string go_back(const Activate& activation) {
    try {
      shard_.store->reset(replicated_by(chains_of(activation, shard_.job.plan),
                                        shard_.context.role.index),
                          beginning_at(shard_.job, activation.checkpoint));
      return {};
    } catch (const InputError& failure) {
      return failure.what();
    }
  }

  void enter_epoch(const Activate& activation) {
    shard_.gate.open();
    if (activation.rollback)
      part_->restore();
    part_->enter_epoch(activation);
    shard_.gate.replay();
  }

  ShardContext shard_;
  std::unique_ptr<ShardPart> part_;
};

} // namespace

shard_actor spawn_shard(caf::actor_system& system, RoleContext context,
                        std::shared_ptr<ShardStore> store) {
  return system.spawn<shard_actor::stateful_impl<ShardState>>(
    std::move(context), std::move(store));
}

} // namespace troupe
