#pragma once

#include "actors/compute/evaluated_rows.hpp"
#include "actors/coordinator/evaluator.hpp"
#include "actors/job/snapshot_book.hpp"
#include "actors/role/present_role.hpp"

#include <cstdint>
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

  void spawn(caf::actor_system& system, const RoleContext& context) {
    if (!context.job->tables.empty())
      rows_ = std::make_shared<EvaluatedRows>(*context.job, *context.data.eval);
    evaluator_ = spawn_evaluator(system, context, rows_);
  }

  /// Sends a snapshot to be evaluated. A version with sparse tables may have
  /// two snapshots: the one that is meant for evaluation is taken.
  template <class Self>
  void evaluate(Self* self, uint64_t job, const Snapshot& snapshot) const {
    if (evaluator_ && snapshot.evaluated == (rows_ != nullptr))
      for (const auto& part : evaluation_parts(job, snapshot))
        self->send(evaluator_, part);
  }

  /// An epoch has begun. Each shard's process is told once, by a pull of the
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
  std::shared_ptr<const EvaluatedRows> rows_; ///< null: no sparse tables
  std::map<RoleId, uint64_t> told_;           ///< incarnations of shards
};

} // namespace troupe
