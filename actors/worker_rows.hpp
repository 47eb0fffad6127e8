#pragma once

#include "actors/peer_directory.hpp"
#include "actors/role_frame.hpp"
#include "actors/step_rows.hpp"

#include <memory>
#include <utility>
#include <vector>

namespace troupe {

/// A worker's side of sparse tables: which rows a step needs, and where they
/// go. Touched by the worker's actor.
class WorkerRows {
public:
  WorkerRows(const Job& job, std::shared_ptr<const Dataset> data)
    : job_(job), data_(std::move(data)) {}

  /// Asks for the rows that a step of these nodes, or the lease of that number,
  /// is about to touch, once the executor has found out which. A later call
  /// makes this one void. `pull` has all but slice and ids.
  template <class Self>
  void pull(Executor& executor, Self* self, PeerDirectory& shards,
            const RowPull& pull, const std::vector<RankRange>& nodes) {
    rows_ = {};
    ++turn_;
    if (!job_.tables.empty())
      run_on(
        executor, self,
        [this, version = pull.version, nodes] { return find(version, nodes); },
        [this, self, &shards, pull,
         turn = turn_](std::shared_ptr<const StepRows>& rows) {
          if (turn != turn_)
            return;
          rows_ = std::move(rows);
          for (const auto& [owner, message] : pulls(pull))
            self->send(shards.at<shard_actor>(owner), message);
        });
  }

  /// Those of the newest pull; null without sparse tables.
  const std::shared_ptr<const StepRows>& rows() const { return rows_; }

  /// Puts what was pulled of any slice where the worker's graph reads it.
  /// Errors: false where it is not what was wanted.
  bool put(const Slice& slice, const TensorView& values,
           float* parameters) const;

private:
  std::shared_ptr<const StepRows> find(uint64_t version,
                                       std::vector<RankRange> nodes) const;
  /// By owner.
  std::vector<std::pair<uint32_t, RowPull>> pulls(RowPull pull) const;

  const Job& job_;
  std::shared_ptr<const Dataset> data_;
  std::shared_ptr<const StepRows> rows_;
  uint64_t turn_ = 0; ///< counts pulls
};

/// What a node of a gradient has for a slice, run or rows.
TensorView pushed_values(const Job& job, const NodeSum& node,
                         const Slice& slice);

} // namespace troupe
