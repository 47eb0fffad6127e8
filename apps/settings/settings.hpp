#pragma once

#include "actors/certificates/credentials.hpp"
#include "actors/job/checkpoint_options.hpp"
#include "actors/job/job.hpp"
#include "apps/settings/chaos_kind.hpp"
#include "apps/settings/slurm.hpp"
#include "strategies/role_id.hpp"

#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace troupe {

/// What `troupe bench all-reduce`, `null-step`, `parameter-server` and
/// `pipeline` measure.
struct BenchOptions {
  static constexpr uint32_t max_members = 64; ///< that share memory

  std::vector<uint32_t> members{2, 4};
  std::vector<uint64_t> bytes{1 << 10, 64 << 10, 256 << 10, 1 << 20,
                              4 << 20, 16 << 20, 64 << 20};
  std::string link = "all";       ///< memory, shm, tcp, all or actors
  std::string reduction = "both"; ///< reproducible, fast or both
  uint32_t rounds = 9;
  std::string peers = "build/peers"; ///< folder of the peers' programs
  std::vector<uint32_t> workers{1, 10, 100};
  std::vector<uint64_t> null_bytes{4}; ///< parameters of bench null-step
  uint32_t shards = 1;
  std::vector<uint64_t> filled_bytes;    ///< sparse tables of bench null-step
  uint64_t exchanged_bytes = 40'000'000; ///< of bench parameter-server
  uint64_t exchanged_pairs = 10'000'000; ///< the same, 0: none
  std::vector<uint32_t> stages{2, 4, 8}; ///< of bench pipeline
  std::vector<uint32_t> micro_batches{4, 8, 16, 32};
  std::vector<std::string> schedules{"gpipe", "1f1b", "interleaved",
                                     "zero_bubble"};
  uint32_t chunks = 2;              ///< of a stage, interleaved
  std::vector<uint32_t> pass_ms{5}; ///< by stage, in turn
  uint64_t pipeline_steps = 9;
  std::string recompute = "none";
  std::vector<uint32_t> decode_threads{1}; ///< of bench data
  uint64_t data_seconds = 5;               ///< of each number of threads
};

/// What `troupe chaos` does to a job.
struct ChaosOptions {
  uint64_t seed = 0;
  uint64_t faults = 8;
  std::vector<ChaosKind> kinds{ChaosKind::kill};
  uint32_t hosts = 3; ///< of the kinds that strike hosts
  /// That the job makes after its last fault before it is ended; none: it ends
  /// by itself.
  std::optional<uint64_t> steps_after;
  std::string plan;             ///< file of strikes; empty: they are drawn
  std::string write_plan;       ///< where to write what struck; empty: nowhere
  std::vector<std::string> job; ///< its arguments: "train", …
};

/// How `troupe launch --kubernetes` describes a job to a cluster.
struct KubernetesFlags {
  bool asked = false;
  std::string name = "troupe";  ///< of the job, and before its objects' names
  std::string space;            ///< namespace; empty: what kubectl uses
  std::string image;            ///< empty: troupe and the version
  std::string storage = "10Gi"; ///< of the volume for what the run writes
  std::string claim;            ///< CLAIM:PATH; empty: none
};

/// Where `troupe launch` starts a job.
struct LaunchFlags {
  std::string hosts;      ///< as parse_hosts() (strategies/placement.hpp)
  std::string hosts_file; ///< as parse_host_lines()
  uint32_t min_hosts = 0; ///< that the job begins with; 0: all of them
  uint32_t max_hosts = 0; ///< that have roles at a time
  std::string ssh = "ssh";
  std::string remote_path; ///< empty: one that the program's bytes name
  std::string address; ///< of this machine, in digits; empty: as hosts see it
  uint64_t connect_deadline_s = 10;
  bool dry_run = false;
  KubernetesFlags kubernetes;
  std::vector<std::string> job; ///< its arguments: "train", …
};

/// What `troupe bench recovery` and `troupe bench goodput` measure.
struct RecoveryOptions {
  uint64_t seed = 0;
  uint32_t trials = 50;           ///< of each kind
  uint32_t kills = 5;             ///< goodput: of each kind
  uint64_t every_s = 60;          ///< goodput: a kill in so many seconds
  std::vector<std::string> kinds; ///< empty: all
};

/// What `troupe events` shows.
struct EventsOptions {
  std::string path;
  std::string kind; ///< empty: all
  std::string role; ///< the same
  uint64_t since_step = 0;
  bool json = false;
};

/// What `troupe generate` writes.
struct GenerateOptions {
  std::optional<std::string> prompt; ///< none: standard input
  std::string tokenizer; ///< file; empty: what is kept with the weights
  uint64_t max_tokens = 200;
  double temperature = 0; ///< 0: the likeliest token
  uint32_t top_k = 0;     ///< 0: of all
  double top_p = 1;
  uint64_t seed = 0;
  bool ids = false; ///< tokens are numbers, not text
};

/// How `troupe top` shows a run at first.
struct TopOptions {
  bool once = false; ///< one page, as text
  bool grouped = false;
  std::string sort = "name";
  std::string filter; ///< empty: all roles
};

/// What one call of the program is to do: parsed and checked once, then passed
/// as plain values.
struct Settings {
  std::string command; ///< "train", "role", "bench step", "help", …
  JobOptions job;

  std::string save; ///< empty: nowhere; so all paths below
  CheckpointOptions checkpoints;
  std::string checkpoint_folder; ///< checkpoint: of one or of several
  std::string summary;
  std::string report; ///< file of HTML
  std::string journal;
  std::string metrics_address = "127.0.0.1:0"; ///< HOST:PORT, 0: any port
  std::string metrics_token; ///< file; empty: in `certificates`
  std::string log_dir;
  /// Folder of recorders; empty: in log_dir, or one that goes with the run;
  /// "none": there are none.
  std::string flight;
  bool records() const { return flight != "none"; }
  std::string timeline;              ///< file; empty: none is drawn
  std::string tensorboard;           ///< folder; empty: no events for it
  std::string log_level = "warning"; ///< error, warning, info or debug
  uint64_t log_every = 0;            ///< steps; 0: a line an epoch
  bool quiet = false;
  bool color = true; ///< false: --no-color

  std::string listen = "127.0.0.1:0"; ///< where this role takes connections
  std::string coordinator; ///< HOST:PORT,… where it may be; empty: not given
  /// --workers MIN:MAX: that are enough to begin and to go on; 0: all to begin.
  uint32_t min_workers = 0;
  bool standby = false;        ///< train: start a second coordinator
  uint32_t restarts = 5;       ///< train: of a role without a step between them
  std::string on_loss = "end"; ///< or replan: a member that is gone for good
  uint32_t best_of = 0;        ///< plan: find the mesh of so many; 0: of none
  bool allow_faults = false;   ///< whether InjectFault is obeyed
  std::string voters;          ///< HOST:PORT,… role coordinator; empty: alone
  uint32_t voter = 0;          ///< role coordinator: which of them is its own
  std::string certificates;    ///< folder or file; empty: the job makes its own
  uint64_t certificate_seconds = 30UL * 24
                                 * 3600; ///< that those made here hold
  std::string member;                    ///< certificates: whose
  std::string token;             ///< role: joins with; empty: has certificates
  uint64_t token_seconds = 3600; ///< certificates token: how long it holds
  std::optional<RoleId> role;    ///< whom `troupe role` plays
  bool paired = false; ///< ... with the shard of its number: sharded:N
  /// train: of the job's roles this host has worker 0, the others come from
  /// elsewhere (TF_CONFIG without a chief).
  bool leads = false;
  int state_fd = -1;       ///< inherited memory of a shard's states; -1: none
  bool supervised = false; ///< role: a launcher started it

  /// evaluate, predict, generate: safetensors file to read
  std::string checkpoint;
  std::string out;               ///< predict: file to write
  std::string output = "class";  ///< predict: or probabilities, logits
  std::string layout = "troupe"; ///< checkpoint export: or hugging_face
  std::string json;              ///< bench: file to write
  uint32_t repetitions = 20;     ///< bench kernels: of each kernel
  BenchOptions bench;
  ChaosOptions chaos;
  RecoveryOptions recovery;
  EventsOptions events;
  TopOptions top;
  GenerateOptions generate;
  LaunchFlags launch;
  std::string format = "table"; ///< model show: table, dot or json

  std::string consistency; ///< ctl: sync, async or staleness:N
  std::string change;      ///< ctl: as strategies/reshape.hpp
  std::string from, to;    ///< ctl move-slices: shards
  std::string slices;      ///< ctl move-slices: 0,3,4; empty: all

  std::string topic; ///< command "help": whose; empty: the program's
  bool print_config = false;
  std::set<std::string>
    given; ///< names of what is not a default: "global-batch"
};

/// What surrounds the process, passed in so that tests choose it.
struct Surroundings {
  std::string tf_config; ///< text of TF_CONFIG, empty when not set
  SlurmWords slurm;
  uint32_t cores = 1;
  /// Counts usable GPUs; called only where it matters, for it takes time.
  std::function<uint32_t()> cuda_devices = [] { return 0u; };
  /// Says why there is none.
  std::function<std::string()> why_no_cuda = [] {
    return std::string{"no usable GPU"};
  };
};
/// Reads TF_CONFIG and what Slurm says, and counts the cores this process may
/// use, by affinity and by its control group's time.
Surroundings surroundings_of_process();

/// Parses the arguments after the program's name. Precedence: flag, TF_CONFIG,
/// --config FILE, default. Devices and threads come back resolved, model, data
/// specification, plan and optimizer checked; no file is opened but the
/// configuration and, where an output is there already, what it might be
/// written over.
/// Errors: UsageError (exit status 2) for what flags, configuration and
/// TF_CONFIG alone reveal; InputError (1) for an unreadable configuration file
/// and for a public address without certificates.
Settings parse_settings(const std::vector<std::string>& arguments,
                        const Surroundings& surroundings);

/// The file of what readers of metrics that leave the host show.
std::string metrics_token_of(const Settings& settings);

/// Where this process finds its certificates.
CertificateSource certificate_source(const Settings& settings);

enum class TomlPart {
  all,   ///< every value as a key, for another process of the same job
  given, ///< what was given; defaults as comments, so that they stay defaults
};
/// Prints what holds as TOML that --config reads back (`--print-config`).
std::string to_toml(const Settings& settings, TomlPart part = TomlPart::all);

} // namespace troupe
