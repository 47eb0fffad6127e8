#include "actors/stores/store_options.hpp"
#include "apps/settings/binding.hpp"
#include "apps/settings/devices.hpp"
#include "apps/terminal/numbers.hpp"

#include <array>

namespace troupe {

namespace {

using namespace binding;

constexpr uint64_t max_epochs = 1'000'000'000;
constexpr uint64_t max_roles = 4096;
constexpr uint64_t max_chunks = 64;
constexpr uint64_t max_ranks = 65'536;
constexpr uint64_t max_slices = 64;
constexpr uint64_t max_batch = 16'777'216;
constexpr uint64_t max_device_bytes = uint64_t{1} << 48;
constexpr uint64_t max_table_bytes = uint64_t{1} << 48;
constexpr uint64_t max_data_bytes = uint64_t{1} << 48;

constexpr auto workers_help = "of parameter_server, multi_worker_mirrored and "
                              "fully_sharded; MIN are enough to begin and to "
                              "go on";

constexpr std::array<std::pair<LrSchedule, const char*>, 4> schedules{{
  {LrSchedule::constant, "constant"},
  {LrSchedule::step, "step"},
  {LrSchedule::cosine, "cosine"},
  {LrSchedule::inverse_sqrt, "inverse_sqrt"},
}};

Binding schedule() {
  return {[](Settings& s, const std::string& value) {
            Choices names;
            for (auto [kind, name] : schedules) {
              names.emplace_back(name);
              if (value == name)
                s.job.lr.schedule = kind;
            }
            require_choice(value, names);
          },
          [](const Settings& s) -> std::string {
            for (auto [kind, name] : schedules)
              if (kind == s.job.lr.schedule)
                return name;
            return {};
          }};
}

Binding strategy() {
  return {[](Settings& s, const std::string& value) {
            require_choice(value,
                           {"one_device", "mirrored", "multi_worker_mirrored",
                            "central_storage", "parameter_server", "pipeline",
                            "hybrid", "fully_sharded", "tensor", "tpu"});
            parse(value, s.job.strategy);
          },
          [](const Settings& s) { return to_string(s.job.strategy); }};
}

Binding mesh() {
  return {[](Settings& s, const std::string& value) {
            std::string mistake;
            if (!parse(value, s.job.cut.mesh, mistake))
              throw UsageError(mistake);
          },
          [](const Settings& s) { return to_string(s.job.cut.mesh); }};
}

Binding data_cache() {
  return {[](Settings& s, const std::string& value) {
            StoreOptions parsed;
            parse_data_cache(value, parsed);
            s.job.data_access.cache = value;
          },
          [](const Settings& s) { return s.job.data_access.cache; }};
}

/// Two flags that exclude each other are not printed together.
Binding eval_fraction() {
  auto number = real(FIELD(job.eval_fraction), fraction());
  return {number.set, [=](const Settings& s) {
            return s.job.eval_data.empty() ? number.get(s) : std::string{};
          }};
}

Binding devices() {
  return {[](Settings& s, const std::string& value) {
            s.job.devices = parse_devices(value);
          },
          [](const Settings& s) { return print_devices(s.job.devices); }};
}

/// Without the flag there is no number to print.
Binding clip_norm() {
  auto number = real(FIELD(job.clip_norm), positive());
  return {number.set, [=](const Settings& s) {
            return s.job.clip_norm > 0 ? number.get(s) : std::string{};
          }};
}

/// Without the flag there is no number to print.
Binding bucket_mb() {
  auto number = real(FIELD(job.bucket_mb), positive());
  return {number.set, [=](const Settings& s) {
            return s.job.bucket_mb > 0 ? number.get(s) : std::string{};
          }};
}

/// Without the flag there is no number to print.
Binding chunks() {
  auto number = whole(FIELD(job.schedule.chunks), 1, max_chunks);
  return {number.set, [=](const Settings& s) {
            return s.job.schedule.chunks > 0 ? number.get(s) : std::string{};
          }};
}

/// Without the flag there is no number to print.
Binding device_memory() {
  return {[](Settings& s, const std::string& value) {
            try {
              s.job.cut.device_memory = parse_bytes(value, 1, max_device_bytes);
            } catch (const UsageError&) {
              throw UsageError("expected bytes, for example 268435456 or "
                               "256MiB");
            }
          },
          [](const Settings& s) {
            return s.job.cut.device_memory > 0
                     ? std::to_string(s.job.cut.device_memory)
                     : std::string{};
          }};
}

Binding sharding() {
  return {[](Settings& s, const std::string& value) {
            require_choice(value, {"optimizer", "gradients", "parameters"});
            parse(value, s.job.cut.sharding);
          },
          [](const Settings& s) { return to_string(s.job.cut.sharding); }};
}

Binding dropout() {
  auto number = real(FIELD(job.dropout), fraction());
  return {number.set, [=](const Settings& s) {
            return s.job.dropout >= 0 ? number.get(s) : std::string{};
          }};
}

Binding workers() {
  auto number = whole(FIELD(job.workers), 1, max_roles);
  return {[=](Settings& s, const std::string& value) {
            const auto colon = value.find(':');
            s.min_workers = 0;
            if (colon == std::string::npos) {
              number.set(s, value);
              return;
            }
            s.min_workers = static_cast<uint32_t>(
              parse_whole(value.substr(0, colon), 1, max_roles));
            number.set(s, value.substr(colon + 1));
            if (s.job.workers < s.min_workers)
              throw UsageError("expected MIN:MAX, the smaller one first");
          },
          [=](const Settings& s) {
            const auto most = number.get(s);
            return s.min_workers == 0
                     ? most
                     : std::to_string(s.min_workers) + ':' + most;
          }};
}

Binding partitioner() {
  return {[](Settings& s, const std::string& value) {
            Partitioner parsed;
            if (!parse(value, parsed))
              throw UsageError("expected fixed:N, min_size:BYTES[:N] or "
                               "max_size:BYTES");
            s.job.partitioner = value;
          },
          [](const Settings& s) { return s.job.partitioner; }};
}

/// Rows of the table, which gives them command bits and heading.
struct Row {
  const char* name;
  const char* value;
  FlagType type;
  const char* fallback;
  const char* help;
  Binding binding;
};

void add(std::vector<Flag>& flags, const char* group, uint64_t commands,
         std::vector<Row> rows) {
  for (auto& row : rows)
    flags.push_back({row.name, row.value, row.type, commands, group,
                     row.fallback, row.help, std::move(row.binding.set),
                     std::move(row.binding.get)});
}

constexpr auto text_flag = FlagType::text;
constexpr auto number_flag = FlagType::number;
constexpr auto toggle_flag = FlagType::toggle;

void add_inputs(std::vector<Flag>& flags) {
  constexpr auto group = "What is computed";
  add(flags, group, on_all | on_model | on_generate,
      {{"model", "M", text_flag, "mlp:784-512-256-10",
        "mlp:…, cnn, resnet8, resnet20, transformer:L4-H4-D128-T64, gpt2:…, "
        "llama:…, dlrm, wide_deep, logreg, FILE.json or FILE.toml; "
        "docs/models.md. Of saved weights: the one that they name",
        text(FIELD(job.model))}});
  add(flags, group, on_all | on_model | on_info | on_doctor | on_source,
      {{"data", "SPEC", text_flag, "required",
        "KIND:WHERE[?key=value&…], WHERE also at https:// or s3://: mnist:DIR, "
        "cifar10:DIR, csv:FILE, parquet:FILES, "
        "libsvm:FILE, criteo:FILE, text:FILE, npy:FILE?labels=FILE, "
        "tfrecord:FILES, tar:FILES, jsonl:FILES, images:DIR, "
        "synthetic:digits|clicks|rows|text; for example "
        "synthetic:digits?samples=60000&seed=0; keys in docs/data.md",
        text(FIELD(job.data))}});
  add(flags, group, on_all | on_source,
      {{"data-memory", "N", number_flag, "a quarter of the free memory",
        "bytes of samples that a process holds; of tfrecord, tar, jsonl and "
        "images what is more is left in the files and read from there, of "
        "other kinds it is refused",
        whole(FIELD(job.data_access.memory), 0, max_data_bytes)}});
  add(flags, group, on_all,
      {{"eval-data", "SPEC", text_flag, "none",
        "samples to evaluate on; excludes --eval-fraction",
        text(FIELD(job.eval_data))},
       {"eval-fraction", "F", number_flag, "0",
        "hold out F of the samples (0 to below 1), drawn unless the data say "
        "?eval=tail; evaluate and predict take that part alone",
        eval_fraction()}});
  add(flags, group, on_all | on_model | on_info | on_source,
      {{"data-cache", "DIR:SIZE", text_flag, "none",
        "of data at http://, https:// and s3:// keep what was read in this "
        "folder, for all processes of a host; SIZE as 500M or 20G",
        data_cache()},
       {"data-timeout", "S", number_flag, "60",
        "seconds that fetching a part of such data may take, with all its "
        "tries, and waiting for samples of --readers",
        whole(FIELD(job.data_access.timeout_s), 1, 86'400)}});
  add(
    flags, group, on_jobs,
    {{"readers", "N", number_flag, "0, the workers themselves",
      "of parameter_server and multi_worker_mirrored, roles of their own that "
      "read and decode samples for the workers, which then need no data",
      whole(FIELD(job.data_access.readers), 0, max_roles)}});
  add(flags, group, on_jobs | on_source,
      {{"seed", "N", number_flag, "0",
        "of initial values and the order of samples",
        whole(FIELD(job.seed), 0, std::numeric_limits<uint64_t>::max())}});
}

void add_places(std::vector<Flag>& flags) {
  constexpr auto group = "Where it runs";
  add(
    flags, group, on_jobs,
    {{"strategy", "S", text_flag, "mirrored",
      "one_device; mirrored (a replica on each device of this machine), "
      "multi_worker_mirrored (on each device of each worker), "
      "central_storage (replicas share the host's variables); "
      "parameter_server (workers push to shards); "
      "pipeline (layers on stages); tensor (slices of layers on members); "
      "hybrid (several pipelines, or groups of tensor members, side by "
      "side); "
      "fully_sharded (workers keep a share of the model each); "
      "tpu (one worker, whose devices of a PJRT plugin run the same programs)",
      strategy()}});
  add(flags, group, on_all | on_doctor,
      {{"devices", "D", text_flag,
        "one_device: cuda:0 where usable, else cpu:1; mirrored: cuda:all, else "
        "cpu:cores, at most one a virtual rank; parameter_server, "
        "multi_worker_mirrored and fully_sharded: cpu:1",
        "cpu:N (N CPU devices), cuda:I[,cuda:J], cuda:all, cuda:I,cpu:N (where "
        "workers may differ) or pjrt:FILE.so[:N] (N devices of a PJRT plugin)",
        devices()}});
  add(flags, group, on_all,
      {{"threads-per-device", "N", number_flag,
        "cores / devices, or cores / workers",
        "threads that compute on each device",
        whole(FIELD(job.threads_per_device), 1, 1024)}});
  add(flags, group, on_jobs,
      {{"workers", "N|MIN:MAX", number_flag, "2", workers_help, workers()},
       {"ps", "N", number_flag, "1",
        "shards of parameter_server, and of hybrid with --sync-data "
        "parameter_server",
        whole(FIELD(job.shards), 1, max_roles)},
       {"chain", "N", number_flag, "1", "replicas of each shard",
        whole(FIELD(job.chain), 1, 16)},
       {"shard", "NAME", text_flag, "parameters",
        "of fully_sharded, what each worker has a share of: optimizer (its "
        "state), gradients (and that), parameters (and those)",
        sharding()},
       {"stages", "N", number_flag, "2",
        "of pipeline, how many hold layers of the model",
        whole(FIELD(job.stages), 1, max_roles)},
       {"mesh", "AXIS=N,…", text_flag, "data=2,stage=2",
        "of hybrid, how many pipelines are side by side, with how many stages "
        "each; or how many groups, with how many tensor members each: "
        "data=2,tensor=2; or pipelines whose stages are such groups: "
        "data=2,stage=2,tensor=2",
        mesh()},
       {"sync-data", "NAME", text_flag, "all_reduce",
        "of hybrid, how gradients are summed over the data axis: all_reduce "
        "(those that hold the same exchange them) or parameter_server (--ps "
        "shards keep what stages and tensor members compute with, and update "
        "it)",
        choice(FIELD(job.cut.sync_data), {"all_reduce", "parameter_server"})},
       {"schedule", "NAME", text_flag, "auto",
        "of pipeline and hybrid, in which order a stage takes micro-batches: "
        "gpipe, 1f1b, interleaved, zero_bubble or auto (that which takes a "
        "step least, of those that --device-memory allows)",
        choice(FIELD(job.schedule.order),
               {"auto", "gpipe", "1f1b", "interleaved", "zero_bubble"})},
       {"chunks", "N", number_flag, "2",
        "of stages with --schedule interleaved, how many parts of the model "
        "each stage has",
        chunks()},
       {"recompute", "NAME,…", text_flag, "none",
        "of pipeline and hybrid, activations that a stage computes again for "
        "its backward pass instead of keeping them: none, full (it keeps "
        "what came from the stage before) or those of the layers or operators "
        "named (it keeps what comes to each); see `troupe model show`",
        text(FIELD(job.schedule.recompute))},
       {"split-at", "NAME,…", text_flag, "measured",
        "of pipeline and hybrid, the operator that each stage but the first "
        "begins with, see `troupe model show`; or what decides that, and "
        "--schedule auto: what operators take on this machine (measured), or "
        "flops",
        text(FIELD(job.cut.split_at))},
       {"tensor", "N", number_flag, "2",
        "of strategy tensor, members that share the --virtual-slices of layers",
        whole(FIELD(job.cut.tensor), 1, max_slices)},
       {"partitioner", "P", text_flag, "max_size:1048576",
        "how variables are cut: fixed:N, min_size:BYTES[:N] or max_size:BYTES",
        partitioner()},
       {"tables", "NAME", text_flag, "sparse where the model allows it",
        "of parameter_server, embeddings by rows that are made on first use "
        "and pulled where a batch has their ids: sparse; whole: dense",
        choice(FIELD(job.tables), {"auto", "sparse", "dense"})},
       {"sparse-updates", "NAME", text_flag, "lazy",
        "of tables that only ids read, with every strategy: what has no "
        "gradient in a step keeps value and state (lazy), or decays and moves "
        "on as all else (exact; tables are dense then, but with --tables "
        "sparse rows make it up when they are touched, read or saved)",
        choice(FIELD(job.sparse_updates), {"lazy", "exact"})},
       {"dense", "NAME", text_flag, "shards",
        "of parameter_server with sparse tables, who keeps the dense "
        "variables: shards; every worker, gradients reduced between them: "
        "all_reduced (with --async rows alone are asynchronous)",
        choice(FIELD(job.dense), {"shards", "all_reduced"})},
       {"table-fill", "", toggle_flag, "rows are made on first use",
        "sparse tables: all rows are there from the beginning",
        toggle(FIELD(job.table_fill), true)},
       {"table-bytes", "N", number_flag, "no limit",
        "sparse tables: bytes of rows and optimizer state over all tables, "
        "above which the rows that were not used for longest are evicted",
        whole(FIELD(job.table_bytes), 0, max_table_bytes)},
       {"table-idle-steps", "N", number_flag, "no limit",
        "sparse tables: rows not used for so many steps are evicted",
        whole(FIELD(job.table_idle_steps), 0, max_steps)},
       {"table-keep-count", "N", number_flag, "none",
        "sparse tables: rows used so often are not evicted for idleness",
        whole(FIELD(job.table_keep_count), 0, 1 << 24)}});
  add(flags, group, on_plan,
      {{"best-mesh-of",
        "N",
        number_flag,
        "none: --mesh",
        "of pipeline, hybrid and tensor: plan the mesh of at most so many "
        "members that takes a step least",
        {whole(FIELD(best_of), 1, Mesh::max_members).set, nullptr}}});
  add(flags, group, on_train | on_plan | on_role,
      {{"device-memory", "BYTES", text_flag, "no limit",
        "what each worker, shard or stage may need, as `troupe plan` has it: "
        "more is refused, and layers are cut so that stages keep to it",
        device_memory()}});
  add(flags, group, on_all | on_kernels | on_generate,
      {{"isa", "NAME", text_flag, "auto",
        "instruction set: auto, sse4, avx2 or avx512; neon on AArch64",
        choice(FIELD(job.isa), {"auto", "sse4", "avx2", "avx512", "neon"})}});
  add(flags, group, on_jobs,
      {{"precision", "NAME", text_flag, "float32",
        "of matrix products and convolutions: float32 or bfloat16; parameters "
        "and all else stay float32",
        choice(FIELD(job.precision), {"float32", "bfloat16"})}});
}

void add_processes(std::vector<Flag>& flags) {
  add(flags, "Where it runs", on_jobs,
      {{"processes", "", toggle_flag,
        "with parameter_server, multi_worker_mirrored and fully_sharded",
        "run each role as a process of its own",
        toggle(FIELD(job.processes), true)},
       {"in-process", "", toggle_flag, "with the other strategies",
        "run all roles in this process", toggle(FIELD(job.processes), false)},
       {"join-deadline-ms", "N", number_flag,
        "30000 ms; 300000 with a PJRT plugin, which compiles first",
        "how long after the last one the next role may join",
        whole(FIELD(job.deadlines.join_ms), 1, 86'400'000)},
       {"step-deadline-ms", "N", number_flag,
        "120000 ms; 600000 with a PJRT plugin, which compiles meanwhile",
        "a run without a step for so long ends; a member that is at a pass is "
        "waited for half as long",
        whole(FIELD(job.deadlines.step_ms), 1'000, 86'400'000)},
       {"loss-ms", "N", number_flag, "0: 1000 ms, 3000 ms over several hosts",
        "processes: a member without a sign of life for so long is left out",
        whole(FIELD(job.deadlines.loss_ms), 0, 3'600'000)}});
}

void add_steps(std::vector<Flag>& flags) {
  constexpr auto group = "How a step is taken";
  add(flags, group, on_jobs | on_model,
      {{"virtual-ranks", "V", number_flag, "4",
        "parts a batch is cut into; fixes the result, whatever computes it",
        whole(FIELD(job.virtual_ranks), 1, max_ranks)},
       {"global-batch", "N", number_flag, "64 samples", "samples of a step",
        whole(FIELD(job.global_batch), 1, max_batch)}});
  add(flags, group, on_all | on_model,
      {{"virtual-slices", "S", number_flag, "1; with tensor members 4",
        "parts that dense layers and heads of attention are cut into, two "
        "layers at a time; fixes the result, as --virtual-ranks does",
        whole(FIELD(job.cut.virtual_slices), 1, max_slices)}});
  add(
    flags, group, on_jobs,
    {{"epochs", "N", number_flag, "1, or no limit with --steps",
      "passes over the samples; 0: no limit",
      whole(FIELD(job.epochs), 0, max_epochs)},
     {"steps", "N", number_flag, "no limit",
      "steps; of epochs and steps the first one reached ends the run",
      whole(FIELD(job.steps), 0, max_steps)},
     {"eval-every", "N", number_flag, "1 epoch",
      "epochs between evaluations; 0: at the end only",
      whole(FIELD(job.eval_every), 0, max_epochs)},
     {"reduction", "NAME", text_flag, "reproducible",
      "reproducible: the same bits for any number of workers, devices and "
      "threads; fast: sums in any order",
      choice(FIELD(job.reduction), {"reproducible", "fast"})},
     {"all-reduce", "NAME", text_flag, "auto",
      "how replicas exchange sums; reproducible: reduction_to_one_device, "
      "nccl (between GPUs); fast, too: ring, halving_doubling, hierarchical, "
      "hierarchical_copy",
      choice(FIELD(job.all_reduce),
             {"auto", "ring", "halving_doubling", "hierarchical",
              "hierarchical_copy", "reduction_to_one_device", "nccl"})},
     {"bucket-mb", "X", number_flag, "tuned",
      "gradients are reduced in pieces of so many MiB, as they are ready",
      bucket_mb()},
     {"link", "NAME", text_flag, "auto",
      "what tensors travel over between processes: tcp, shm (between processes "
      "of one host) or auto",
      choice(FIELD(job.link), {"auto", "tcp", "shm"})},
     {"link-encryption", "NAME", text_flag, "auto",
      "TLS over tensors: on, off or auto (off on one host)",
      choice(FIELD(job.link_encryption), {"auto", "on", "off"})},
     {"compress", "NAME", text_flag, "none",
      "of gradients that workers send, with --reduction fast: fp16, bf16, "
      "int8, "
      "onebit or topk:F (the largest F of them)",
      text(FIELD(job.compress))}});
}

void add_optimizer(std::vector<Flag>& flags) {
  add(flags, "Optimizer", on_jobs,
      {{"optimizer", "NAME", text_flag, "adam",
        "sgd, momentum, nesterov, adam, adamw, adagrad, rmsprop, ftrl or lamb",
        text(FIELD(job.optimizer))},
       {"lr", "X", number_flag, "0.001", "learning rate",
        real(FIELD(job.learning_rate), positive())},
       {"momentum", "X", number_flag, "0.9", "of momentum and nesterov",
        real(FIELD(job.rule.momentum), fraction())},
       {"beta1", "X", number_flag, "0.9", "of adam, adamw and lamb",
        real(FIELD(job.rule.beta1), fraction())},
       {"beta2", "X", number_flag, "0.999", "of adam, adamw, rmsprop and lamb",
        real(FIELD(job.rule.beta2), fraction())},
       {"epsilon", "X", number_flag, "1e-08",
        "of adam, adamw, adagrad, rmsprop and lamb",
        real(FIELD(job.rule.epsilon), positive())},
       {"weight-decay", "X", number_flag, "0",
        "of weights, not of biases and norms; decoupled with adamw and lamb, "
        "else added to the gradient",
        real(FIELD(job.rule.weight_decay), not_negative())},
       {"l1", "X", number_flag, "0", "of ftrl: makes small weights 0",
        real(FIELD(job.rule.l1), not_negative())},
       {"l2", "X", number_flag, "0", "of ftrl",
        real(FIELD(job.rule.l2), not_negative())},
       {"ftrl-beta", "X", number_flag, "1",
        "of ftrl: the smaller, the larger "
        "the first steps",
        real(FIELD(job.rule.ftrl_beta), not_negative())},
       {"plugin", "FILE", text_flag, "none",
        "shared object with code of your own, loaded by every role",
        text(FIELD(job.plugin))},
       {"server-filter", "NAME", text_flag, "none",
        "of parameter_server: changes gradients in the shard before the "
        "update; finite: drops values that are not; or a plug-in's",
        text(FIELD(job.server_filter))},
       {"server-rule", "NAME", text_flag, "none",
        "of parameter_server: a plug-in's update rule, with the state values "
        "of --optimizer",
        text(FIELD(job.server_rule))},
       {"clip-norm", "X", number_flag, "none",
        "scales a gradient whose norm over all parameters is above X down to "
        "it; with --async each push's",
        clip_norm()},
       {"dropout", "X", number_flag, "the model's",
        "rate of the model's dropout", dropout()},
       {"lr-schedule", "NAME", text_flag, "constant",
        "constant, step, cosine or inverse_sqrt", schedule()},
       {"warmup-steps", "N", number_flag, "0 steps",
        "steps over which the learning rate grows to its full value",
        whole(FIELD(job.lr.warmup_steps), 0, max_steps)},
       {"min-lr", "X", number_flag, "0", "where cosine ends",
        real(FIELD(job.lr.min), not_negative())}});
}

} // namespace

std::vector<Flag> job_flags() {
  std::vector<Flag> flags;
  add_inputs(flags);
  add_places(flags);
  add_processes(flags);
  for (auto& flag : consistency_flags())
    flags.push_back(std::move(flag));
  add_steps(flags);
  add_optimizer(flags);
  return flags;
}

} // namespace troupe
