#pragma once

#include "strategies/mesh.hpp"
#include "strategies/rank_tree.hpp"
#include "strategies/role_id.hpp"
#include "strategies/slicing.hpp"
#include "strategies/tensor_plan.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace troupe {

/// How a job is distributed. Source: the first five are named after the
/// strategies of TensorFlow's tf.distribute.
enum class Strategy : uint8_t {
  one_device,
  mirrored,
  multi_worker_mirrored,
  central_storage,
  parameter_server,
  pipeline,
  tensor,
  hybrid,
  fully_sharded,
  tpu, ///< a worker whose devices, a PJRT plugin's, run the same programs
};
enum class Synchronisation : uint8_t { sync, async };
/// What of a fully sharded job is spread over its workers, each with all of the
/// former: who has a part updates it. Source: stages 1 to 3 of Rajbhandari et
/// al., "ZeRO: Memory Optimizations Toward Training Trillion Parameter Models",
/// SC 2020.
enum class Sharding : uint8_t { optimizer, gradients, parameters };

/// What a stage of a pipeline holds, or a chunk of one: operators [begin, end)
/// of the graph. Bytes that cross are of one sample.
struct StageLayers {
  uint32_t begin = 0;
  uint32_t end = 0;
  std::string first; ///< names of its first and last operator
  std::string last;
  std::vector<uint32_t> variables; ///< that it keeps and updates
  uint64_t flops = 0;              ///< of a sample, forward and backward
  uint64_t bytes_in = 0;           ///< from the stage before, forward
  uint64_t bytes_back = 0;         ///< to the stage before, backward
  uint32_t in_flight = 1; ///< micro-batches between forward and backward
};

/// What a strategy needs to know of the job; counts of what exists, no names
/// of machines.
struct PlanOptions {
  Strategy strategy = Strategy::mirrored;
  Synchronisation synchronisation = Synchronisation::sync;
  uint32_t workers = 2; ///< parameter_server, multi_worker_mirrored,
                        ///< fully_sharded
  uint32_t shards = 1;  ///< parameter_server: chains of them
  uint32_t chain = 1; ///< parameter_server, fully_sharded: replicas of a shard
  /// hybrid: shards keep what stages, or tensor members, compute with, and
  /// these keep nothing.
  bool serves_stages = false;
  Sharding sharding = Sharding::parameters; ///< fully_sharded
  std::vector<std::string> devices; ///< of one worker's machine, e.g. "cpu:0"
  uint32_t virtual_ranks = 4;
  uint32_t global_batch = 64;
  bool processes = false;
  Partitioner partitioner = MaxSize{};
  bool any_order = false; ///< --reduction fast
  std::string all_reduce = "auto";
  bool compresses = false;
  uint32_t backup_workers = 0; ///< that a synchronous step does not wait for
  /// parameter_server: workers keep dense variables and reduce their gradients;
  /// shards keep sparse tables only.
  bool dense_reduced = false;
  /// Of a pipeline, in the model's order: chunk c of stage k is c S + k, of S
  /// stages with `chunks` each.
  std::vector<StageLayers> stages;
  uint32_t chunks = 1;
  uint32_t readers = 0; ///< that read samples for the workers; 0: they do
  uint32_t data = 1;    ///< pipelines side by side, with those stages each; or
                        ///< groups, with those tensor members each
  std::string schedule; ///< of pipelines, in words
  /// Of tensor members, of one group; or of one pipeline, stage after stage,
  /// each with as many.
  std::vector<TensorShare> tensor;
};

/// What one role of the plan is to do.
struct RolePlan {
  RoleId role;
  std::string device; ///< where it computes; "cpu" for a shard
  RankRange ranks;    ///< empty for a shard, the evaluator, the coordinator
  std::vector<uint32_t> slices; ///< owned slice ids; of a tensor member with
                                ///< those that all keep; of one that keeps
                                ///< none those that it computes with
};

/// Which role runs where, which variable lives where, how a step is
/// synchronised. Plain data; two jobs with equal plans exchange equal messages.
struct Plan {
  Strategy strategy = Strategy::mirrored;
  Synchronisation synchronisation = Synchronisation::sync;
  bool processes = false;
  uint32_t virtual_ranks = 4;
  uint32_t global_batch = 64;
  std::vector<Variable> variables;
  std::vector<Slice> slices;
  /// Per slice: index of the owning role, or every_worker.
  std::vector<uint32_t> owner;
  static constexpr uint32_t every_worker = ~uint32_t{0};
  uint32_t owners = 0; ///< so many, each with `chain` replicas
  uint32_t chain = 1;
  RoleKind owner_kind = RoleKind::worker; ///< shard for parameter_server,
                                          ///< stage where layers are on
                                          ///< them, tensor where slices of
                                          ///< layers are on members
  std::vector<RolePlan> roles; ///< coordinator, evaluator, workers, shards, …
  std::string reduction;       ///< in words, e.g. "direct exchange, fixed tree"

  bool dense_reduced = false; ///< every worker keeps the dense variables
  /// Worker K and shard K are one process, which computes and keeps slices: it
  /// dies as a whole. A slice's replicas are with shards that follow.
  bool paired = false;
  /// Of a pipeline: chunk c of stage k is c S + k, of S stages. mesh() says who
  /// is who. There are `chain` pipelines, each with all slices, where stages
  /// keep them.
  std::vector<StageLayers> stages;
  /// Shards keep what stages, or tensor members, compute with: how these are
  /// laid out.
  std::optional<Mesh> served;
  uint32_t group = 1; ///< tensor members of a stage
  /// Of tensor members, of one group or pipeline: of each of its places.
  std::vector<TensorShare> tensor;

  /// Of stages and tensor members.
  Mesh mesh() const {
    return served ? *served : Mesh{chain, owners / group, group};
  }
  /// The kind of those that take passes; not of a process, which `paired` is.
  RoleKind computing() const {
    return served && tensor.empty()     ? RoleKind::stage
           : served                     ? RoleKind::tensor
           : has_model_part(owner_kind) ? owner_kind
                                        : RoleKind::worker;
  }
  /// Whether that role keeps slices that others of its kind have not.
  bool keeps(RoleId role) const {
    return keeps_slices(role.kind) && role.kind == owner_kind;
  }

  std::vector<RolePlan> of_kind(RoleKind kind) const;
  /// Errors: a role that is not in the plan is a bug and asserts.
  const RolePlan& role(RoleId role) const;
  /// Of a tensor member. Errors: another role is a bug and asserts.
  const TensorShare& share(RoleId member) const;
  /// Whether a stage or tensor member shows a slice which it has: one does in a
  /// pipeline, of those that have the same.
  bool shows(RoleId role, uint32_t slice) const;
  /// Tells whether shards, or stages, keep the slice.
  bool on_shards(uint32_t slice) const;
  /// Who keeps a slice at first: owner c, then c + owners, c + 2 owners, …, or
  /// where shards are in workers the next ones round; nobody of what every
  /// worker keeps.
  std::vector<uint32_t> replicas(uint32_t slice) const;
};

/// A mistake that the options alone reveal; `message` is the user's one line
/// and names the flag to change.
struct PlanError {
  std::string message;
};

/// Makes the plan of a strategy; a pure function. one_device, mirrored and
/// central_storage have one worker per device, multi_worker_mirrored has
/// `workers` times as many, and every slice is owned by a worker: it is the one
/// who shows it. parameter_server has `workers` workers on devices[index mod
/// size] and `shards` shards that own the slices, with `chain` replicas each:
/// shard c + k * shards is replica k of shard c. pipeline has its stages on
/// devices[index mod size]; each owns the slices of its chunks' variables and
/// takes every virtual rank through its layers. tensor has its members on
/// devices[index mod size]; who shows a variable owns its slices, and
/// each takes every virtual rank through its virtual slices. hybrid has `data`
/// pipelines, or groups of tensor members where `tensor` is given, which take a
/// range of the ranks each; with both, each stage is such a group. With
/// `serves_stages` the slices are with `shards` shards, as of parameter_server,
/// also those of tensor members.
/// fully_sharded has `workers` workers and as many shards, paired: slice s of
/// owner c has its replicas with shards c, c + 1, … of a ring. Errors: returns
/// false and fills `error` (more workers or devices than virtual ranks, virtual
/// ranks above the global batch, async without parameter_server, zero counts,
/// an all-reduce that the strategy or the reduction does not have).
bool make_plan(const PlanOptions& options,
               const std::vector<Variable>& variables, Plan& plan,
               PlanError& error);

/// Prints the plan as an aligned table for people (`troupe plan`).
std::string to_table(const Plan& plan);

std::string to_string(Sharding sharding);
/// Errors: returns false for an unknown name.
bool parse(const std::string& name, Sharding& sharding);

std::string to_string(Strategy strategy);
/// Errors: returns false for an unknown name.
bool parse(const std::string& name, Strategy& strategy);

} // namespace troupe
