#pragma once

#include "actors/scalar_decider.hpp"
#include "actors/shard/frame.hpp"
#include "actors/shard/part.hpp"
#include "actors/shard/step_shares.hpp"
#include "actors/slice_work.hpp"
#include "strategies/pull_desk.hpp"

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <vector>

namespace troupe {

/// The dense slices of a synchronous job: sums pushed nodes along the tree,
/// asks for the scalars that the update needs, applies a step when its tree is
/// complete and serves the two newest versions.
class StepSlices : public ShardPart {
public:
  explicit StepSlices(ShardFrame& shard);

  void leave_epoch() override;
  void seal(std::vector<SliceState>& report) const override;
  void restore() override;
  void enter_epoch(const Activate& activation) override;
  void pull(const Pull& pull, const worker_actor& worker) override;
  using ShardPart::push;
  void push(const Push& push) override;
  void take(const BlockSums& sums, const shard_actor& asker) override;
  void take(const Scalars& scalars) override;
  void take(const AskShares& ask, const shard_actor& asker) override;
  void take(const StepShares& decision) override;
  void end_at(const EndAt& end) override;

  using ShardPart::take;

private:
  struct Owned {
    Owned(uint32_t id, StepLedger ledger, SliceWork work)
      : id(id), ledger(std::move(ledger)), work(std::move(work)) {}
    uint32_t id;
    StepLedger ledger;
    SliceWork work;
    uint32_t round = 0;  ///< of the step's scalars
    bool asking = false; ///< its sums of that round are with the decider
    StepScalars scalars; ///< of the rounds before

    void begin_step() {
      round = 0;
      asking = false;
      scalars = {};
    }
  };

  void serve(size_t local);
  /// k of n: nobody waits for a straggler, so what it copies may be overwritten
  /// meanwhile. It gets a copy, of a newer version where its own is gone.
  void serve_copy(size_t local, RoleId puller, uint64_t version);
  void accept(size_t local, const Push& push);
  uint32_t samples_of(uint64_t step) const;
  /// The slice's tree is whole: what is left are the rounds of scalars that the
  /// update needs, then the update.
  void reduce(size_t local);
  void ask(size_t local, uint64_t step, const std::vector<double>& sums);
  void on_applied(size_t local);
  void report_applied();
  void show_load();
  /// Sends copies of the versions that the plan (or an early end) names.
  void snapshot(size_t local);

  ShardFrame& shard_;
  const std::vector<ScalarRoundKind> rounds_;
  std::vector<std::unique_ptr<Owned>> slices_; ///< by index in the store
  std::optional<StepSharesDesk> shares_;       ///< k of n
  PullDesk pulls_;
  std::map<RoleId, worker_actor> pullers_;
  std::optional<ScalarDecider> decider_; ///< of the shard with slice 0
  std::set<shard_actor> askers_;         ///< of this epoch
  uint64_t end_;
  uint64_t reported_ = ~uint64_t{0};
};

} // namespace troupe
