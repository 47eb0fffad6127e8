#include "apps/settings/idle_flags.hpp"

#include "actors/job/stage_mesh.hpp"
#include "actors/sockets/endpoint.hpp"
#include "apps/settings/devices.hpp"
#include "apps/terminal/numbers.hpp"
#include "kernels/base/error.hpp"

#include <algorithm>
#include <initializer_list>

namespace troupe {

namespace {

using Flags = std::map<std::string, std::string>;
using Names = std::initializer_list<const char*>;

/// Refuses those of `names` that were given, where they would be idle.
void refuse_idle(const Flags& flags, Names names, bool idle,
                 const std::string& why) {
  for (const auto* name : names)
    if (idle && flags.contains(name))
      throw UsageError("--" + std::string{name} + " has no effect " + why);
}

/// The same of flags of which one value is what holds without them.
void refuse_idle_but(const std::string& fallback, const Flags& flags,
                     Names names, bool idle, const std::string& why) {
  for (const auto* name : names)
    if (const auto found = flags.find(name);
        found != flags.end() && found->second != fallback)
      refuse_idle(flags, {name}, idle, why);
}

bool is_served(const JobOptions& job) {
  return job.strategy == Strategy::parameter_server;
}

bool is_sharded(const JobOptions& job) {
  return job.strategy == Strategy::fully_sharded;
}

bool has_workers(const JobOptions& job) {
  return is_served(job) || is_sharded(job)
         || job.strategy == Strategy::multi_worker_mirrored;
}

/// How a strategy that has no workers is told how many take part.
std::string instead_of_workers(Strategy strategy) {
  switch (strategy) {
    case Strategy::pipeline:
      return "; use --stages N";
    case Strategy::tensor:
      return "; use --tensor N";
    case Strategy::hybrid:
      return "; use --mesh data=D,stage=N,tensor=T";
    default:
      return "; add --strategy parameter_server or multi_worker_mirrored, or "
             "use --devices cpu:N";
  }
}

void check_strategy(const Settings& settings, const Flags& flags) {
  const auto& job = settings.job;
  const auto with = "with --strategy " + to_string(job.strategy);
  const auto serve = with + "; add --strategy parameter_server";
  const auto served = with
                      + (job.strategy == Strategy::hybrid
                           ? "; add --sync-data parameter_server"
                           : "; add --strategy parameter_server");
  refuse_idle(flags, {"workers"}, !has_workers(job),
              with + instead_of_workers(job.strategy));
  refuse_idle(flags, {"ps"}, !is_served(job) && !has_served_stages(job),
              served);
  refuse_idle(flags, {"slow-worker"}, !is_served(job), serve);
  refuse_idle(flags, {"shard"}, !is_sharded(job),
              with + "; add --strategy fully_sharded");
  const bool meshed = job.strategy == Strategy::hybrid;
  refuse_idle(flags, {"schedule", "recompute", "split-at"}, !has_stages(job),
              meshed ? "with --mesh " + to_string(job.cut.mesh)
                         + ", which has no stages; leave it out"
                     : with + "; add --strategy pipeline");
  refuse_idle(flags, {"stages"}, job.strategy != Strategy::pipeline,
              with
                + (meshed ? "; use --mesh data=D,stage=N"
                          : "; add --strategy pipeline"));
  refuse_idle(flags, {"mesh", "sync-data"}, !meshed,
              with + "; add --strategy hybrid");
  refuse_idle(flags, {"tensor"}, job.strategy != Strategy::tensor,
              with
                + (meshed ? "; use --mesh data=D,tensor=N"
                          : "; add --strategy tensor"));
  refuse_idle(flags, {"chunks"}, job.schedule.order != "interleaved",
              "without --schedule interleaved; add it");
  refuse_idle(flags,
              {"priority", "tables", "dense", "table-fill", "table-bytes",
               "table-idle-steps", "table-keep-count"},
              !is_served(job), serve);
  refuse_idle(flags, {"reject-stale", "staleness-damping", "prefetch"},
              job.synchronisation != Synchronisation::async,
              "without --async; add it");
  refuse_idle(flags, {"bucket-mb"}, job.strategy == Strategy::one_device,
              with + ", which reduces nothing; leave it out");
  refuse_idle(flags, {"bucket-mb"},
              is_sharded(job) && job.cut.sharding != Sharding::optimizer,
              "with --shard " + to_string(job.cut.sharding)
                + ", which sends gradients part by part; leave it out");
  refuse_idle(flags, {"bucket-mb"}, job.strategy == Strategy::tpu,
              with
                + ", whose devices run one program that sums by itself; "
                  "leave it out");
  refuse_idle(flags, {"threads-per-device"},
              !job.devices.empty() && is_of_plugin(job.devices.front()),
              "with devices of a PJRT plugin, which has threads of its own; "
              "leave it out");
  const bool by_nccl = job.all_reduce == "nccl";
  refuse_idle(flags, {"bucket-mb"}, by_nccl,
              "with --all-reduce nccl, which sums in one piece; leave it out");
  refuse_idle_but("none", flags, {"compress"}, by_nccl,
                  "with --all-reduce nccl, which sends all; leave it out");
  if (is_sharded(job) && settings.min_workers > 0)
    throw UsageError("--workers MIN:MAX has no effect " + with
                     + ", whose workers all keep a share of the model; give "
                       "one number");
  if (flags.contains("slow-worker")
      && std::stoul(job.slow_worker) >= job.workers)
    throw UsageError("--slow-worker " + job.slow_worker + ": there are "
                     + std::to_string(job.workers)
                     + " workers, the first is 0; name one of them");
}

void check_tables(const JobOptions& job, const Flags& flags) {
  refuse_idle(flags,
              {"table-fill", "table-bytes", "table-idle-steps",
               "table-keep-count"},
              job.tables == "dense",
              "with --tables dense, which keeps all rows; leave it out");
  refuse_idle(flags,
              {"table-fill", "table-bytes", "table-idle-steps",
               "table-keep-count"},
              job.sparse_updates == "exact",
              "with --sparse-updates exact, which gives no row up and makes "
              "those that it needs; leave it out");
  refuse_idle_but("0", flags, {"table-keep-count"}, job.table_idle_steps == 0,
                  "without --table-idle-steps N, which it makes exceptions "
                  "from; add it");
}

/// Connections are between processes.
void check_processes(const Settings& settings, const Flags& flags) {
  const auto& job = settings.job;
  const std::string shared = "where roles share a process; ";
  const bool apart = job.processes || settings.command == "role";
  const auto together = shared
                        + (may_be_apart(job)
                             ? "drop it or add --processes"
                             : "drop it, or add --strategy "
                               "multi_worker_mirrored or parameter_server");
  refuse_idle(flags, {"listen", "loss-ms", "allow-faults"}, !apart, together);
  refuse_idle_but("auto", flags, {"link", "link-encryption"}, !apart, together);
  refuse_idle(flags, {"certificate-seconds"},
              !apart && settings.certificates.empty(), together);
  refuse_idle_but("none", flags, {"compress"},
                  !apart && job.strategy == Strategy::multi_worker_mirrored,
                  together);
  if (job.processes && !may_be_apart(job))
    throw UsageError("--processes has no effect with --strategy "
                     + to_string(job.strategy)
                     + ", whose roles share a process; drop it or add "
                       "--strategy multi_worker_mirrored");
}

/// What nobody outside of this host will read needs no token.
void check_metrics(const Settings& settings, const Flags& flags) {
  const auto places = parse_addresses(settings.metrics_address);
  const bool local = std::ranges::all_of(places, [](const auto& place) {
    return is_loopback(place.host);
  });
  refuse_idle(flags, {"metrics-token"}, local,
              "where metrics stay on this host; drop it, or add "
              "--metrics-address HOST:PORT");
}

void check_optimizer(const JobOptions& job, const Flags& flags) {
  using enum OptimizerKind;
  const auto is = [&](std::initializer_list<OptimizerKind> kinds) {
    return std::ranges::find(kinds, job.rule.kind) != kinds.end();
  };
  const auto why = "with --optimizer " + job.optimizer + "; leave it out";
  refuse_idle(flags, {"momentum"}, !is({momentum, nesterov}), why);
  refuse_idle(flags, {"beta1"}, !is({adam, adamw, lamb}), why);
  refuse_idle(flags, {"beta2"}, !is({adam, adamw, rmsprop, lamb}), why);
  refuse_idle(flags, {"epsilon"}, !is({adam, adamw, adagrad, rmsprop, lamb}),
              why);
  refuse_idle(flags, {"l1", "l2", "ftrl-beta"}, !is({ftrl}), why);
  refuse_idle(flags, {"min-lr"}, job.lr.schedule != LrSchedule::cosine,
              "without --lr-schedule cosine");
}

/// A list may name what lies elsewhere: it is not read here.
bool may_be_elsewhere(const std::string& data) {
  return data.find("://") != data.npos || data.find(":@") != data.npos;
}

void check_evaluation(const Settings& settings, const Flags& flags) {
  const auto& job = settings.job;
  if (settings.command == "bench step") {
    refuse_idle(flags, {"eval-data", "eval-fraction", "eval-every"}, true,
                "with bench step, which does not evaluate; leave it out");
    return;
  }
  refuse_idle_but("0", flags, {"eval-every"},
                  job.eval_data.empty() && job.eval_fraction == 0,
                  "without samples to evaluate on; add --eval-fraction F or "
                  "--eval-data SPEC");
}

} // namespace

bool may_be_apart(const JobOptions& job) {
  return has_workers(job) || has_stages(job) || has_tensor_members(job);
}

void refuse_idle_flags(const Settings& settings, const Flags& flags) {
  if (settings.command == "bench step"
      && settings.job.strategy != Strategy::one_device)
    throw UsageError("--strategy " + to_string(settings.job.strategy)
                     + ": bench step measures one_device; leave it out");
  check_strategy(settings, flags);
  check_tables(settings.job, flags);
  check_processes(settings, flags);
  check_metrics(settings, flags);
  check_optimizer(settings.job, flags);
  check_evaluation(settings, flags);
  refuse_idle(flags, {"histogram-every"}, settings.tensorboard.empty(),
              "without --tensorboard DIR; add it");
  refuse_idle(
    flags, {"checkpoint-every", "checkpoint-keep", "initial-weights", "resume"},
    settings.checkpoints.dir.empty(), "without --checkpoint-dir DIR; add it");
}

void refuse_idle_data_flags(const Settings& settings, const Flags& flags) {
  const bool here = !may_be_elsewhere(settings.job.data)
                    && !may_be_elsewhere(settings.job.eval_data);
  const auto* why = "with data of this machine alone; leave it out";
  refuse_idle(flags, {"data-cache"}, here, why);
  refuse_idle(flags, {"data-timeout"},
              here && settings.job.data_access.readers == 0, why);
}

} // namespace troupe
