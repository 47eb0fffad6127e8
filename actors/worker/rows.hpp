#pragma once

#include "actors/compute/step_rows.hpp"
#include "actors/control/peer_directory.hpp"
#include "actors/role/context.hpp"
#include "strategies/rank_tree.hpp"

#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

namespace troupe {

/// A worker's side of sparse tables: which rows a step needs, and where they
/// go. What the step after needs is found out ahead, while the executor waits
/// for the pulled parameters. Touched by the worker's actor.
class WorkerRows {
public:
  WorkerRows(const Job& job, std::shared_ptr<const Dataset> data,
             std::shared_ptr<LinkMemory> memory)
    : job_(job),
      data_(std::move(data)),
      memory_(std::move(memory)),
      sampling_(job.sampling) {}

  /// An epoch begins: whom each slice is pushed to, and read from.
  void route(const std::vector<uint32_t>& heads, std::vector<uint32_t> tails) {
    told_->begin_epoch(heads, tails);
    tails_ = std::move(tails);
  }

  /// Whose rows are meant.
  struct Samples {
    uint64_t step = 0;
    std::vector<RankRange> nodes;
    bool operator==(const Samples&) const = default;
  };

  /// Asks for the rows that `samples` are about to touch, once the executor has
  /// found out which, then looks at what probably follows. A later call makes
  /// this one void. `pull` has all but slice and ids.
  template <class Self>
  void pull(Executor& executor, Self* self, PeerDirectory& shards,
            const RowPull& pull, Samples samples, Samples following) {
    rows_ = {};
    if (job_.tables.empty())
      return;
    const bool found = ahead_ == samples && ahead_rows_;
    const bool under_way = ahead_ == samples && !ahead_rows_;
    wish_ = [this, &executor, self, &shards, pull,
             following = std::move(following)] {
      rows_ = std::exchange(ahead_rows_, {});
      for (const auto& [tail, message] : pulls(pull))
        self->send(shards.at<shard_actor>(tail), message);
      look_at(executor, self, following);
    };
    if (found)
      std::exchange(wish_, {})();
    else if (!under_way)
      look_at(executor, self, std::move(samples));
  }

  /// Those of the newest pull; null without sparse tables.
  const std::shared_ptr<const StepRows>& rows() const { return rows_; }

  /// Puts what was pulled of any slice where the worker's graph reads it.
  /// Errors: false where it is not what was wanted.
  bool put(const Slice& slice, const TensorView& values,
           float* parameters) const;

private:
  template <class Self>
  void look_at(Executor& executor, Self* self, Samples samples) {
    ++turn_;
    ahead_rows_ = {};
    ahead_ = std::move(samples);
    run_on(
      executor, self, [this, samples = *ahead_] { return find(samples); },
      [this, turn = turn_](std::shared_ptr<const StepRows>& rows) {
        if (turn != turn_)
          return;
        ahead_rows_ = std::move(rows);
        if (wish_)
          std::exchange(wish_, {})();
      });
  }

  std::shared_ptr<const StepRows> find(Samples samples);
  /// What is pulled from each shard that is read.
  std::vector<std::pair<uint32_t, RowPull>> pulls(RowPull pull) const;

  const Job& job_;
  std::shared_ptr<const Dataset> data_;
  std::shared_ptr<LinkMemory> memory_;
  std::vector<uint32_t> tails_; ///< by slice
  const std::shared_ptr<ToldLists> told_ = std::make_shared<ToldLists>();
  std::shared_ptr<const StepRows> rows_;
  std::optional<Samples> ahead_; ///< what is, or was last, looked at
  std::shared_ptr<const StepRows> ahead_rows_; ///< null: not yet, or taken
  std::function<void()> wish_;                 ///< waits for that
  uint64_t turn_ = 0;                          ///< counts looks

  // Touched by the executor: steps that have the same samples, as those of a
  // batch of all samples do, have the same rows.
  Sampling sampling_;
  std::vector<StepRows::Indices> last_samples_;
  std::vector<RankRange> last_nodes_;
  std::shared_ptr<const StepRows> last_;
};

/// What a node of a gradient has for a slice, run or rows.
TensorView pushed_values(const Job& job, const NodeSum& node,
                         const Slice& slice);

} // namespace troupe
