#pragma once

#include "actors/shard/part.hpp"
#include "actors/shard/row_desk.hpp"
#include "actors/shard/scalar_desk.hpp"
#include "actors/shard/slice_chains.hpp"
#include "actors/shard/slice_work.hpp"
#include "actors/shard/step_shares.hpp"
#include "strategies/pull_desk.hpp"

#include <map>
#include <memory>
#include <optional>
#include <vector>

namespace troupe {

/// The slices of a synchronous job, rows of sparse tables among them: the head
/// sums pushed nodes along the tree, asks for the scalars that the update
/// needs, applies a step when its tree is complete and sends the sum down the
/// chain; the tail serves the two newest versions.
class StepSlices : public ShardPart {
public:
  explicit StepSlices(ShardContext& shard);

  void leave_epoch() override;
  void seal(std::vector<SliceState>& report) const override;
  void restore() override;
  void enter_epoch(const Activate& activation) override;
  void take(const ShardMessage& message,
            const caf::strong_actor_ptr& from) override;

private:
  void pull(const Pull& pull, const worker_actor& worker);
  void pull(const RowPull& pull, const worker_actor& worker);
  void push(const Push& push);
  void take(const Scalars& scalars);
  void take(const StepShares& decision);
  void end_at(const EndAt& end);
  void snapshot(const SnapshotRequest& request);

  /// A worker that waits for one slice alone.
  struct Reader {
    worker_actor worker;
    uint64_t version = 0;
  };

  struct Owned {
    Owned(uint32_t virtual_ranks, SliceWork work)
      : ledger(virtual_ranks, 0), work(std::move(work)) {}
    StepLedger ledger; ///< head
    SliceWork work;
    bool head = false;
    uint64_t version = 0; ///< applied
    uint32_t round = 0;   ///< of the step's scalars
    bool asking = false;  ///< its sums of that round are with the decider
    uint64_t values = 0;  ///< of the step's sum, or more: where rows are equal
    StepScalars scalars;  ///< of the rounds before
    std::vector<Reader> readers;
    RowDesk rows;     ///< of a part of a sparse table: pulls
    KnownLists lists; ///< the same

    void count(uint64_t pushed, bool rows) {
      values = rows ? values + pushed : pushed;
    }
    void begin_step() {
      round = 0;
      asking = false;
      values = 0;
      scalars = {};
    }
  };

  bool serves(uint32_t slice) const {
    const auto* line = chains_.find(slice);
    return line != nullptr && line->place.tail && line->serves;
  }
  void serve(uint32_t slice);
  void serve_rows(uint32_t slice);
  void serve_readers(uint32_t slice);
  /// k of n: nobody waits for a straggler, so what it copies may be overwritten
  /// meanwhile. It gets a copy, of a newer version where its own is gone.
  void serve_copy(uint32_t slice, RoleId puller, uint64_t version);
  void unknown_rows(const Push& push);
  void accept(const Push& push, KnownLists::List ids = {});
  /// Identities for the shares that a slice's step is known to be without.
  void leave_out(uint32_t slice);
  uint32_t samples_of(uint64_t step) const {
    return shares_ ? shares_->samples_of(step)
                   : shard_.job.sampling.step(step).count;
  }
  /// The slice's tree is whole: what is left are the rounds of scalars that the
  /// update needs, then the update.
  void reduce(uint32_t slice);
  void apply_root(uint32_t slice);
  void forward_root(uint32_t slice);
  void apply(const ChainUpdate& update);
  void on_applied(uint32_t slice);
  void report_applied();
  void show_load();
  /// Sends copies of the versions that the plan (or an early end) names.
  void show(uint32_t slice);
  /// Sends a copy of the newest version, if that was asked for.
  void checkpoint(uint32_t slice);

  ShardContext& shard_;
  const std::vector<ScalarRoundKind> rounds_;
  /// Workers keep nothing of what they push: it lies here until it is added.
  const bool keeps_nodes_;
  std::map<uint32_t, std::unique_ptr<Owned>> slices_;
  SliceChains chains_;
  ScalarDesk desk_;
  std::optional<StepSharesDesk> shares_; ///< k of n
  PullDesk pulls_;
  std::map<uint32_t, size_t>
    served_; ///< by slice: of a dense one, its place at the desk
  std::map<RoleId, worker_actor> pullers_;
  std::optional<uint64_t> wanted_; ///< for a checkpoint, asked in this epoch
  uint64_t end_;
  uint64_t reported_ = ~uint64_t{0};
};

} // namespace troupe
