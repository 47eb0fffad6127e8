#pragma once

#include "actors/compute/leaf_tree.hpp"
#include "actors/job/slice_update.hpp"
#include "actors/role/context.hpp"
#include "actors/shard/shard_store.hpp"
#include "actors/stage/peer_copies.hpp"
#include "actors/stage/peer_sum.hpp"
#include "kernels/data/dataset.hpp"
#include "kernels/engine/tensor_replica.hpp"

#include <memory>
#include <string>
#include <vector>

namespace troupe {

/// A tensor member without its actor: the passes of its slices, from sum to
/// sum, and its updates. It keeps the slices of its pieces, and those of what
/// nobody cuts, which every member updates alike. All calls from tasks of the
/// executor, or while it is idle, but replica(), slices() and copy().
class TensorSteps {
public:
  TensorSteps(const RoleContext& context, Executor& executor,
              std::shared_ptr<ShardStore> store);

  const TensorReplica& replica() const { return *replica_; }
  uint32_t sums() const {
    return static_cast<uint32_t>(replica_->part().sums.size());
  }

  /// Those that it keeps.
  const std::vector<uint32_t>& slices() const { return slices_; }

  /// What is held of the slices that this member shows: no more than it has of
  /// all that it needs.
  std::vector<SliceState> held() const;
  /// Goes back to a checkpoint; null: to version 0.
  /// Errors: InputError where it cannot be read.
  void reset(const std::shared_ptr<const Beginning>& beginning);
  /// An epoch begins at a version that is held; what is left of a step is gone.
  void enter(uint64_t version, uint64_t epoch);

  PeerCopy copy(uint32_t slice, uint64_t version) const {
    return copy_of(job_, store_, slice, version);
  }
  void install(uint32_t slice, uint64_t version, const TensorView& copy) {
    install_copy(job_, *store_, slice, version, copy);
  }

  /// A step of the version in hand begins.
  void begin_step(uint64_t step);

  /// What became of a micro-batch that was computed as far as can be; one
  /// without samples waits for a sum of no elements.
  struct Pass {
    bool done = false;
    TensorView partial; ///< unless done: this member's, of the sum it waits for
    LeafLoss loss;      ///< once done
  };
  Pass begin(uint32_t rank);
  /// Shapes: partials [members], each of the sum that the last call told of;
  /// the own one may be empty.
  Pass go_on(uint32_t rank, const std::vector<TensorView>& partials);

  // --- beside other groups, once all micro-batches are done: MeshSum --------

  std::vector<PeerSum::Given> give(const MeshSum::Step& sum) const {
    return of_peers_.give(sum, gradients_);
  }
  TensorView add(const MeshSum::Step& sum, const StagePeers& peers,
                 const PeerValues& nodes) {
    return of_peers_.add(sum, gradients_, peers, nodes);
  }
  void complete(const StagePeers& peers, const PeerValues& shares) {
    of_peers_.complete(peers, shares);
  }

  // --- the gradient is summed -----------------------------------------------

  /// The block sums, in a round, of the slices that
  /// this member shows, one after the other (slice_sums()).
  std::vector<double> block_sums(ScalarRoundKind round,
                                 const StepScalars& scalars);
  /// The step's update, to the next version.
  /// Returns why it cannot be, one line; empty: it is done.
  std::string update(const StepScalars& scalars);

  /// Those of a version that is held which this member shows.
  std::vector<SnapshotSlice> snapshot(uint64_t version) const;

private:
  bool shows(uint32_t slice) const;
  void load(uint64_t version);
  void add_up(const std::vector<TensorView>& partials);
  Pass advance(uint32_t rank);
  uint32_t rows_of(uint32_t rank) const {
    return sampling_.rank(step_, rank).count;
  }
  UpdateMoment moment() const;
  UpdateArgs arguments(const Slice& slice, const StepScalars& scalars) const;

  RoleContext context_;
  const Job& job_;
  Executor& executor_;
  Mesh mesh_;
  uint32_t own_; ///< place in its group
  std::shared_ptr<ShardStore> store_;
  std::vector<uint32_t> slices_; ///< that it keeps
  Sampling sampling_;
  std::unique_ptr<TensorReplica> replica_;
  std::vector<uint32_t> addends_; ///< members, in the order of their sum
  std::vector<uint32_t> merges_;  ///< after each of them
  BatchMemory samples_;
  Buffer parameters_; ///< of the version in hand, flat by the replica's layout
  LeafTree gradients_;
  PeerSum of_peers_;
  std::vector<uint32_t> rows_; ///< of the micro-batch in hand
  std::span<float> place_;     ///< of the sum that is waited for
  uint64_t step_ = 0;
};

} // namespace troupe
