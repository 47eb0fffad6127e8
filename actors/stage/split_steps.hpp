#pragma once

#include "actors/compute/leaf_tree.hpp"
#include "actors/job/slice_update.hpp"
#include "actors/role/context.hpp"
#include "actors/shard/shard_store.hpp"
#include "actors/stage/peer_copies.hpp"
#include "actors/stage/peer_sum.hpp"
#include "actors/stage/stage_shards.hpp"
#include "kernels/data/dataset.hpp"
#include "strategies/mesh.hpp"

#include <map>
#include <memory>
#include <string>
#include <vector>

namespace troupe {

/// What a stage and a tensor member do alike on their executor: each keeps some
/// slices of parameters and optimizer state in two banks (ShardStore), computes
/// with the parameters of one version, sums the gradient with those that hold
/// the same, and updates all its slices to the next version. Or shards keep
/// them, and it has the parameters of the step in hand alone. Which passes make
/// the gradient is each one's own. All calls from tasks of the executor, or
/// while it is idle, but slices(), copy(), gradient_elements() and take().
class SplitSteps {
public:
  virtual ~SplitSteps() = default;

  /// Those that it keeps, or takes from shards.
  const std::vector<uint32_t>& slices() const { return slices_; }
  /// What is held of the slices that this role shows.
  virtual std::vector<SliceState> held() const;
  /// Goes back to a checkpoint; null: to version 0.
  /// Errors: InputError where it cannot be read.
  void reset(const std::shared_ptr<const Beginning>& beginning);
  /// An epoch begins at a version that is held; what is left of a step is gone.
  void enter(uint64_t version, uint64_t epoch);
  /// A slice of a version that is held, for who has lost it, and such a copy.
  PeerCopy copy(uint32_t slice, uint64_t version) const {
    return copy_of(job_, store_, slice, version);
  }
  void install(uint32_t slice, uint64_t version, const TensorView& copy) {
    install_copy(job_, *store_, slice, version, copy);
  }

  /// A step of the version in hand begins.
  void begin_step(uint64_t step);

  // --- where shards keep the slices -----------------------------------------

  /// Takes a slice of the step's version. No pass may be under way.
  /// Shape: values [count of the slice].
  void take(uint32_t slice, const TensorView& values);
  struct ToPush {
    std::vector<SliceSum> sums; ///< slice by slice
    std::string trouble; ///< why they cannot be used, one line; empty: they can
  };
  /// What the gradients of its pipeline's ranks sum up to, of the slices that
  /// this role shows.
  ToPush sums_to_push() const;

  // --- all micro-batches are done: the sum with peers, where it has some ----

  /// Elements of each chunk's gradient.
  std::vector<uint64_t> gradient_elements() const;
  /// What the peers are given of this role's sums.
  std::vector<PeerSum::Given> give(const MeshSum::Step& sum) const;
  /// Adds up this role's share of each chunk's gradient, and returns them.
  std::vector<TensorView> add(const MeshSum::Step& sum, const StagePeers& peers,
                              const PeerValues& nodes);
  /// The whole gradient, with the peers' shares.
  void complete(const StagePeers& peers, const PeerValues& shares);

  // --- the gradient is summed -----------------------------------------------

  /// The block sums, in a round, of the slices that this role shows, one after
  /// the other (slice_sums()).
  std::vector<double> block_sums(ScalarRoundKind round,
                                 const StepScalars& scalars);
  /// The step's update, to the next version. A slice that was updated before
  /// the step was broken off has the same bits already, and is left alone.
  /// Returns why it cannot be, one line; empty: it is done.
  std::string update(const StepScalars& scalars);

  /// Copies of the slices that this role shows, of a version that is held.
  std::vector<SnapshotSlice> snapshot(uint64_t version) const;

protected:
  /// Parameters and gradient of a part of the model, flat by its layout.
  struct Chunk {
    Chunk(const RoleContext& context, uint32_t number, const Layout& flat);

    /// Of all virtual ranks.
    const float* gradient() const { return of_peers.gradient(sums); }
    uint64_t place_of(const Slice& slice) const {
      return layout.offsets[slice.variable] + slice.offset;
    }

    Layout layout;
    Buffer parameters; ///< of the version in hand
    LeafTree sums;     ///< of the virtual ranks that this role takes
    PeerSum of_peers;
  };

  /// `store` null: shards keep the slices.
  SplitSteps(const RoleContext& context, Executor& executor,
             std::shared_ptr<ShardStore> store);

  /// The next chunk; `kept` of the slices lie in it.
  void add_chunk(const Layout& layout, const std::vector<uint32_t>& kept);

  /// Whether seals, snapshots, norms and shards have a slice from this role.
  bool shows(uint32_t slice) const {
    return job_.plan.shows(context_.role, slice);
  }
  SliceState state_of(uint32_t slice, uint64_t oldest, uint64_t newest) const;
  /// A micro-batch of the step in hand, its samples in `memory`; null: without
  /// them, for who computes on what others send.
  Batch gather(uint32_t rank, BatchMemory* memory);
  uint32_t rows_of(uint32_t rank) const {
    return job_.sampling.rank(step_, rank).count;
  }

  RoleContext context_;
  const Job& job_;
  Executor& executor_;
  Mesh mesh_;
  std::shared_ptr<ShardStore> store_;
  std::vector<uint32_t> slices_; ///< that it keeps
  std::vector<Chunk> chunks_;
  uint64_t step_ = 0;

private:
  /// What is left of a step is gone.
  virtual void abandon() = 0;

  RankRange own_ranks() const {
    return mesh_.ranks(mesh_.pipeline_of(context_.role.index),
                       job_.options.virtual_ranks);
  }
  bool has_samples(RankRange node) const;
  TensorView sum_of(const Slice& slice, RankRange node) const;
  std::string not_finite() const;
  void load(uint64_t version);
  /// Points an update, or its sums, at a slice as the step finds it.
  UpdateArgs arguments(const Slice& slice, const StepScalars& scalars) const;

  std::map<uint32_t, uint32_t> chunk_of_; ///< by slice
  Sampling sampling_;                     ///< it keeps the order of an epoch
  std::vector<uint64_t> rows_;            ///< of the micro-batch in hand
};

} // namespace troupe
