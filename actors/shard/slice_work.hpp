#pragma once

#include "actors/job/slice_update.hpp"
#include "actors/shard/shard_store.hpp"
#include "actors/shard/slice_addend.hpp"
#include "actors/wire/messages.hpp"
#include "kernels/base/buffer.hpp"
#include "kernels/server_code.hpp"
#include "strategies/step_ledger.hpp"

#include <map>
#include <memory>
#include <vector>

namespace troupe {

/// The payloads of one slice, and what is done with them: carries out a
/// ledger's decisions and the update. Touched by tasks of one executor only,
/// which spread over its threads; it has ended before this is destroyed.
class SliceWork {
public:
  SliceWork(const Job& job, std::shared_ptr<ShardStore> store, uint32_t slice,
            Executor& executor);

  /// Stores what `node` holds, then does what the ledger decided.
  void accept(RankRange node, Addend values,
              const StepLedger::Decision& decision);
  /// The block sums of a round of step `step`, whose root is there.
  /// Shape: [sums_of(job, slice, round)].
  std::vector<double> sums(ScalarRoundKind round, uint64_t step,
                           uint32_t samples, const StepScalars& scalars) const;
  /// The step's sum of gradients, whose tree is whole, as it is forwarded.
  /// Shape: float [count of the slice], or rows (row_payload.hpp).
  TensorView root() const;
  /// Applies the root's payload as step `step` of `samples` samples and
  /// forgets the step's nodes.
  void apply_step(uint64_t step, uint32_t samples, const StepScalars& scalars);
  /// Does what apply_step() does with a sum that another shard has made.
  void apply_sum(const Addend& sum, uint64_t step, uint32_t samples,
                 const StepScalars& scalars);
  /// Applies one lease's gradient, clipped and damped by `scalars`, as its own
  /// update.
  void apply_lease(const Addend& gradient, uint32_t samples,
                   const StepScalars& scalars, const Consistency& period,
                   const LeaseSet& applied);
  /// Copies the nodes that came over links: what an epoch leaves undone must
  /// not take room in the windows that the next one needs (link_terms()), and
  /// who lent it writes there again.
  void own();
  void forget();

private:
  const Slice& slice() const { return job_.plan.slices[slice_]; }
  void update(const Addend& gradient, UpdateMoment moment,
              const StepScalars& scalars);
  std::vector<double> row_sums(ScalarRoundKind round, UpdateArgs args) const;
  void apply_rule(UpdateArgs args);
  void update_rows(const Addend& gradient, UpdateMoment moment,
                   const StepScalars& scalars);
  std::shared_ptr<Buffer> take(size_t count);
  bool owns(const TensorView& values) const;

  const Job& job_;
  std::shared_ptr<ShardStore> store_;
  uint32_t slice_;
  Executor* executor_;
  GradientFilter filter_;
  ServerRule rule_;
  const Addend& sum() const;

  std::map<RankRange, Addend> held_;
  std::vector<std::shared_ptr<Buffer>> pool_;
};

} // namespace troupe
