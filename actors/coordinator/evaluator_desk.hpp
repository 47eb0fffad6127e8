#pragma once

#include "actors/compute/evaluated_rows.hpp"
#include "actors/coordinator/evaluator.hpp"
#include "actors/job/snapshot_book.hpp"
#include "actors/role/present_role.hpp"

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <utility>

namespace troupe {

/// The coordinator's side of evaluations: the evaluator, where there are
/// samples for one, and which shards know what it reads of sparse tables.
/// Touched by the coordinator's actor.
class EvaluatorDesk {
public:
  explicit operator bool() const { return static_cast<bool>(evaluator_); }

  /// `known`: called, by the coordinator's actor, once the evaluator has looked
  /// what it reads of sparse tables.
  void spawn(caf::actor_system& system, const RoleContext& context,
             std::function<void()> known) {
    has_tables_ = !context.job->tables.empty();
    evaluator_ = spawn_evaluator(
      system, context,
      [this, known = std::move(known), coordinator = context.coordinator](
        const std::shared_ptr<const EvaluatedRows>& rows) {
        caf::anon_send(caf::actor_cast<caf::actor>(coordinator),
                       Completion{[this, known, rows] {
                         rows_ = rows;
                         known();
                       }});
      });
  }

  /// Sends a snapshot to be evaluated. A version with sparse tables may have
  /// two snapshots: the one that is meant for evaluation is taken, which has
  /// all rows of a shard that was not told yet.
  template <class Self>
  void evaluate(Self* self, uint64_t job, const Snapshot& snapshot) const {
    if (evaluator_ && snapshot.evaluated == has_tables_)
      for (const auto& part : evaluation_parts(job, snapshot))
        self->send(evaluator_, part);
  }

  /// An epoch has begun, or is under way as it becomes known which rows
  /// evaluations read. Each shard's process is told once, by a pull of the
  /// evaluator's, which is a standing wish: whatever it keeps later, it knows
  /// which rows evaluations read.
  template <class Self>
  void tell(Self* self, const Job& job, const Fence& fence,
            const std::map<RoleId, PresentRole>& present) {
    if (!rows_)
      return;
    for (const auto& [role, member] : present) {
      if (role.kind != RoleKind::shard)
        continue;
      const auto [known, fresh] = told_.emplace(role, member.incarnation);
      if (!fresh
          && std::exchange(known->second, member.incarnation)
               == member.incarnation)
        continue;
      for (const auto& slice : job.plan.slices)
        if (slice.sparse())
          if (auto ids = rows_->wanted(slice))
            self->send(
              caf::actor_cast<shard_actor>(member.actor),
              RowPull{
                fence, {RoleKind::evaluator, 0}, 0, slice.id, std::move(*ids)});
    }
  }

  template <class Self>
  void finish(Self* self, const Finish& finish) const {
    if (evaluator_)
      self->send(evaluator_, finish);
  }

private:
  evaluator_actor evaluator_;
  bool has_tables_ = false;
  std::shared_ptr<const EvaluatedRows> rows_; ///< null: not yet, or no tables
  std::map<RoleId, uint64_t> told_;           ///< incarnations of shards
};

} // namespace troupe
