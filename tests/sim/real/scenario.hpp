#pragma once

#include "actors/job/job.hpp"

#include <cstdint>
#include <memory>
#include <string>

namespace troupe::real {

enum class Fault : uint8_t {
  kill_worker, ///< or a stage, or a tensor member, beside shards
  kill_shard,  ///< or a stage, or a tensor member, that keeps slices
  kill_host,   ///< a shard and its memory
  pause,       ///< a process stands still for less than silence takes
  stop,        ///< … for longer
  cut_link,
  cut_control,
  corrupt, ///< a byte of a link is not what was sent
  one_way, ///< nothing gets from one process to another for a time
  delay,
  clock, ///< the coordinator stands still, and its clock is far ahead then
};
inline constexpr uint32_t fault_kinds = 11;
std::string to_string(Fault fault);

/// A job that worlds run.
struct Scenario {
  enum class Kind : uint8_t {
    sync,
    scalars, ///< each step needs a norm over all slices
    tables,  ///< sparse tables beside dense variables
    async,
    bounded,
    async_tables,
    pipeline, ///< stages; those before are of a parameter server
    tensor,   ///< members that have slices of layers
    grouped,  ///< stages of such members
  } kind = Kind::sync;
  uint32_t workers = 1;
  uint32_t shards = 1;
  uint32_t chain = 1;
  /// Of a pipeline, or of tensor members.
  struct Stages {
    uint32_t count = 1;
    uint32_t pipelines = 1; ///< or groups, side by side, each with so many
    uint32_t members = 1;   ///< of each stage of kind grouped
    std::string schedule = "1f1b"; ///< of stages, as the next one
    bool recompute = false;
    bool clips = false; ///< each step needs a norm over all of them
    bool tied = false;  ///< a transformer, whose table two stages use
    bool norms = false; ///< with statistics over all virtual ranks: gpipe
    bool beside_shards = false; ///< which keep what they compute with
  } stages;
  uint32_t changes = 0; ///< of who takes part, or who keeps what, are asked for
  bool exact = false;   ///< rows have updates without a gradient, too
  std::shared_ptr<const Job> job;
  JobData data;

  bool async() const { return kind >= Kind::async && !staged(); }
  /// Its roles have parts of the model.
  bool staged() const { return kind >= Kind::pipeline; }
  /// Who computes what, in words: equal for equal jobs.
  std::string layout() const;
  std::string describe() const;
};
inline constexpr uint32_t served_kinds = 6;
/// Seeds from here on are those of pipelines, of tensor members, of stages of
/// tensor members, of pipelines beside shards, and of tensor members, or stages
/// of them, beside shards.
inline constexpr uint64_t first_pipeline_seed = 1'000'000;
inline constexpr uint64_t first_tensor_seed = 2'000'000;
inline constexpr uint64_t first_grouped_seed = 3'000'000;
inline constexpr uint64_t first_beside_shards_seed = 4'000'000;
inline constexpr uint64_t first_members_beside_shards_seed = 5'000'000;
/// The first of the seeds that one is among.
constexpr uint64_t first_of_kind(uint64_t seed) {
  for (auto first :
       {first_members_beside_shards_seed, first_beside_shards_seed,
        first_grouped_seed, first_tensor_seed, first_pipeline_seed})
    if (seed >= first)
      return first;
  return 0;
}

Scenario scenario_of(uint64_t seed);
/// The same with one worker and one shard, with one stage, or one member that
/// has all slices.
Scenario undisturbed(const Scenario& scenario);

} // namespace troupe::real
