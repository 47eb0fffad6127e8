#include "apps/settings/checks.hpp"

#include "actors/job/stage_mesh.hpp"
#include "actors/sockets/endpoint.hpp"
#include "apps/settings/flags.hpp"
#include "apps/settings/idle_flags.hpp"
#include "apps/settings/places.hpp"
#include "apps/terminal/numbers.hpp"
#include "kernels/base/error.hpp"
#include "kernels/data/table_survey.hpp"
#include "kernels/files/output_trial.hpp"
#include "strategies/consistency.hpp"
#include "strategies/reshape.hpp"

#include <algorithm>
#include <filesystem>

namespace troupe {

namespace {

using Flags = std::map<std::string, std::string>;

constexpr uint64_t min_loss_ms = 500; ///< two signs of life

[[noreturn]] void refuse(const std::string& what) {
  throw UsageError(what);
}

void require_flag(const Settings& settings, const std::string& value,
                  const std::string& name, const std::string& example) {
  if (value.empty())
    refuse("'troupe " + settings.command + "' needs --" + name
           + ", for example --" + name + " " + example);
}

/// Layers are dealt anew by a launcher that starts all roles on its own host,
/// and by the coordinator that it starts.
void check_loss(const Settings& settings) {
  const auto& job = settings.job;
  const std::string flag = "--on-loss replan ";
  const bool split = has_stages(job) || has_tensor_members(job);
  if (settings.best_of > 0 && !split)
    refuse("--best-mesh-of lays out stages and tensor members; add --strategy "
           "hybrid, or leave it out");
  if (settings.on_loss != "replan")
    return;
  if (!split)
    refuse(flag + "deals layers anew, and --strategy " + to_string(job.strategy)
           + " has every layer everywhere; leave it out");
  if (has_served_stages(job))
    refuse(flag
           + "is not available yet with --sync-data parameter_server; drop one "
             "of them");
  if (settings.command == "role" && !settings.supervised)
    refuse(flag
           + "ends and starts roles, and nobody does where they are "
             "started by hand; leave it out");
  if (settings.leads)
    refuse(flag
           + "is not available yet where roles come from several hosts; "
             "leave it out");
  if (settings.command != "role" && !job.processes)
    refuse(flag + "starts other processes; add --processes");
  if (settings.standby)
    refuse(flag + "is not available yet with --standby; drop one of them");
  if (settings.checkpoints.dir.empty())
    refuse(flag
           + "keeps what members have left as a checkpoint; add "
             "--checkpoint-dir DIR");
}

/// What two values do not allow together.
void check_values(const Settings& settings) {
  const auto& job = settings.job;
  if (job.lr.schedule == LrSchedule::cosine && job.lr.min > job.learning_rate)
    refuse("--min-lr " + print_real(job.lr.min) + " is above --lr "
           + print_real(job.learning_rate) + "; make it smaller");
  if (job.deadlines.loss_ms > 0 && job.deadlines.loss_ms < min_loss_ms)
    refuse("--loss-ms " + std::to_string(job.deadlines.loss_ms)
           + ": members give signs of life every 250 ms; give at least "
           + std::to_string(min_loss_ms) + ", or 0 for the default");
  if (job.precision == "bfloat16" && job.isa != "auto" && job.isa != "avx512"
      && on_processors(job))
    refuse("--precision bfloat16 needs instructions that --isa " + job.isa
           + " leaves out; drop one of them");
  if (settings.standby && !job.processes)
    refuse("--standby takes over from a process that died; add --processes");
  check_loss(settings);
}

/// Model, layout, plan and end of the run, as the job will make them.
void check_job(const Settings& settings) {
  const auto& job = settings.job;
  if (!job.data.empty())
    parse_labelled_spec(job.data);
  if (!job.eval_data.empty())
    parse_labelled_spec(job.eval_data);
  Job check{job, job.global_batch};
}

void check_voters(const Settings& settings) {
  if (settings.voters.empty())
    return;
  const auto places = parse_addresses(settings.voters);
  const auto voters = places.size();
  for (const auto& place : places)
    if (std::ranges::count(places, to_string(place),
                           [](const auto& x) { return to_string(x); })
        > 1)
      refuse("--voters " + settings.voters + ": " + to_string(place)
             + " is named twice, and has one vote");
  if (voters != 3 && voters != 5)
    refuse("--voters " + settings.voters + ": name three or five, not "
           + std::to_string(voters));
  if (settings.voter >= voters)
    refuse("--voter " + std::to_string(settings.voter) + ": --voters names "
           + std::to_string(voters) + ", the first is 0");
  require_flag(settings, settings.journal, "journal", "vote.db");
}

void check_role(const Settings& settings) {
  if (!settings.role)
    refuse("'troupe role' needs to know which: name it (troupe role worker:0) "
           "or set TF_CONFIG with a task");
  auto role = *settings.role;
  if (role.kind == RoleKind::coordinator) {
    check_voters(settings);
    if (!settings.token.empty() && settings.coordinator.empty())
      refuse(
        "--token has no effect without --coordinator HOST:PORT: who signs; "
        "name the coordinator that leads");
    return;
  }
  if (settings.coordinator.empty())
    refuse("role " + to_string(role)
           + " needs --coordinator HOST:PORT, or "
             "TF_CONFIG with a chief");
  if (settings.coordinator.ends_with(":0"))
    refuse("--coordinator " + settings.coordinator
           + ": port 0 names nobody; give the port the coordinator printed");
}

/// A public address is for members with certificates only.
void check_address(const Settings& settings, const std::string& flag,
                   const std::string& address) {
  if (address.empty() || !settings.certificates.empty()
      || std::ranges::all_of(parse_addresses(address),
                             [](const auto& x) { return is_loopback(x.host); }))
    return;
  refuse(
    "--" + flag + " " + address
    + ": address not local without certificates; add --certificates DIR or "
      "use 127.0.0.1");
}

/// Finds out before the work, not after it, that its result has no place.
/// `bytes`: about how many it will have.
void check_output(const std::string& flag, const std::string& path,
                  uint64_t bytes = 0) {
  namespace fs = std::filesystem;
  if (path.empty())
    return;
  std::error_code failure;
  if (fs::is_directory(path, failure))
    throw InputError("--" + flag + " " + path + ": is a folder; name a file");
  auto folder = fs::path{path}.parent_path();
  if (!folder.empty() && !fs::is_directory(folder, failure))
    throw InputError("--" + flag + " " + path + ": there is no folder "
                     + folder.string() + "; create it first");
  try {
    try_output(path, bytes);
  } catch (const InputError& mistake) {
    throw InputError("--" + flag + " " + mistake.what());
  }
}

/// How much --save writes.
uint64_t bytes_of_weights(const JobOptions& options) {
  auto whole = options;
  if (has_stages(options) || has_tensor_members(options)
      || options.strategy == Strategy::fully_sharded) {
    // As on one device: parts would be asked what they need, which chooses the
    // instruction set.
    whole.strategy = Strategy::one_device;
    whole.workers = whole.stages = whole.chain = 1;
    whole.cut = {{}, options.cut.virtual_slices};
    whole.devices = {"cpu:0"};
  }
  const Job job{whole, options.global_batch};
  uint64_t values = 0;
  for (const auto& variable : job.plan.variables)
    values += elements(variable.shape);
  return values * sizeof(float);
}

/// Members that share memory are as many as a group of it takes.
void check_bench(const Settings& settings) {
  const auto& bench = settings.bench;
  if (settings.command != "bench all-reduce" || bench.link == "actors")
    return;
  for (auto members : bench.members)
    if (members > BenchOptions::max_members)
      refuse("--members " + std::to_string(members) + ": at most "
             + std::to_string(BenchOptions::max_members)
             + " threads or processes; add --link actors");
}

/// A coordinator that goes on with a job is not kept from that by a place that
/// cannot be written just now.
bool goes_on(const Settings& settings) {
  std::error_code failure;
  const auto bytes = std::filesystem::file_size(settings.journal, failure);
  return settings.command == "role" && !failure && bytes > 0;
}

void check_files(const Settings& settings) {
  if (goes_on(settings))
    return;
  if (!settings.save.empty())
    check_output("save", settings.save, bytes_of_weights(settings.job));
  check_output("journal", settings.journal);
  check_output("summary", settings.summary);
  check_output("report", settings.report);
  check_output("timeline", settings.timeline);
  if (!settings.records() && !settings.timeline.empty())
    refuse("--timeline draws what recorders keep: drop --flight none");
  check_output("out", settings.out);
  check_output("json", settings.json);
}

void check_control(const Settings& settings) {
  Consistency mode;
  Reshape wish;
  std::string mistake;
  if (settings.command == "ctl consistency") {
    if (!parse(settings.consistency, mode))
      refuse("'troupe ctl consistency' takes sync, async or staleness:N, not '"
             + settings.consistency + "'");
  } else if (!parse(settings.change, wish, mistake)) {
    refuse("'troupe " + settings.command + "': " + mistake);
  }
  require_flag(settings, settings.coordinator, "coordinator", "127.0.0.1:7000");
  require_flag(settings, settings.certificates, "certificates", "certs");
}

void check_certificates(const Settings& settings) {
  const auto& command = settings.command;
  require_flag(settings, settings.certificates, "certificates", "certs");
  if (command == "certificates show")
    return;
  if (!parse_member_name(settings.member))
    refuse(
      "'troupe " + command
      + "' takes a member: coordinator, worker:N, ps:N, stage:N, tensor:N, "
        "sharded:N, evaluator:N, voter, supervisor, operator or authority:N"
      + (settings.member.empty() ? "" : ", not '" + settings.member + "'"));
  if (command == "certificates renew" || command == "certificates revoke")
    require_flag(settings, settings.coordinator, "coordinator",
                 "127.0.0.1:7000");
}

/// Pods are no hosts that ssh reaches, nor the other way round.
void check_kubernetes(const Settings& settings) {
  const auto given = [&](const char* flag) {
    return settings.given.count(flag) > 0;
  };
  for (const auto* flag :
       {"hosts", "hosts-file", "hosts-between", "address", "remote-path", "ssh",
        "connect-deadline-s", "dry-run"})
    if (settings.launch.kubernetes.asked && given(flag))
      refuse("--" + std::string{flag}
             + " has no effect with --kubernetes, which starts nothing; drop "
               "one of them");
  for (const auto* flag : {"name", "namespace", "image", "storage", "claim"})
    if (!settings.launch.kubernetes.asked && given(flag))
      refuse("--" + std::string{flag}
             + " has no effect without --kubernetes; add that, or drop it");
}

/// What has an effect only where tokens are drawn is refused elsewhere.
void check_generate(const Settings& settings) {
  require_flag(settings, settings.checkpoint, "checkpoint", "text.safetensors");
  for (const auto* flag : {"top-k", "top-p", "seed"})
    if (settings.generate.temperature == 0 && settings.given.count(flag) > 0)
      refuse("--" + std::string{flag}
             + " has no effect without --temperature X, which draws tokens; "
               "add it");
  if (settings.generate.ids && !settings.generate.tokenizer.empty())
    refuse("--tokenizer has no effect with --ids, as tokens are numbers then; "
           "drop one of them");
  if (settings.given.count("model") > 0)
    make_graph(settings.job.model);
}

/// Checks the commands that look at, or change, a job that runs elsewhere.
/// Returns whether it is one of them.
bool check_observer(const Settings& settings) {
  const auto& command = settings.command;
  if (command.starts_with("ctl ")) {
    check_control(settings);
    return true;
  }
  if (command.starts_with("certificates ")) {
    check_certificates(settings);
    return true;
  }
  if (command.starts_with("checkpoint ")) {
    if (settings.checkpoint_folder.empty())
      refuse("'troupe " + command + "' needs the folder, for example troupe "
             + command + " checkpoints");
    if (command == "checkpoint export")
      require_flag(settings, settings.out, "out", "weights.safetensors");
    if (settings.layout == "troupe")
      check_output("out", settings.out);
    return true;
  }
  if (command == "generate") {
    check_generate(settings);
    return true;
  }
  if (command == "chaos") {
    if (settings.chaos.job.empty() || settings.chaos.job.front() != "train")
      refuse("'troupe chaos' takes the job after --, for example troupe chaos "
             "--faults 8 -- train --strategy parameter_server --processes");
    for (const auto* flag : {"seed", "faults", "kinds"})
      if (!settings.chaos.plan.empty() && settings.given.count(flag) > 0)
        refuse("--" + std::string{flag}
               + " has no effect with --plan, which says what strikes; drop "
                 "one of them");
    check_output("json", settings.json);
    check_output("write-plan", settings.chaos.write_plan);
    return true;
  }
  if (command == "launch") {
    const auto& launch = settings.launch;
    check_kubernetes(settings);
    if (!launch.kubernetes.asked && launch.hosts.empty()
        && launch.hosts_file.empty())
      refuse("'troupe launch' needs hosts, for example troupe launch -H "
             "host1:2,host2:2 -- train --strategy multi_worker_mirrored, or an "
             "allocation of Slurm's around it, or --kubernetes");
    if (launch.job.empty() || launch.job.front() != "train")
      refuse(
        "'troupe launch' takes the job after --, for example troupe launch "
        "-H host1:2,host2:2 -- train --strategy multi_worker_mirrored");
    if (launch.ssh.find_first_not_of(' ') == std::string::npos)
      refuse("--ssh: expected a command, for example --ssh 'ssh -p 2222'");
    return true;
  }
  if (command == "events") {
    if (!settings.flight.empty()
        && (!settings.events.path.empty() || !settings.events.kind.empty()))
      refuse(
        "'troupe events' shows a journal or, with --flight, what recorders "
        "kept, which has no kinds");
    if (settings.events.path.empty() && settings.flight.empty())
      refuse("'troupe events' needs the journal of a run, or the folder that "
             "it was given as --log-dir, for example troupe events run.db");
    return true;
  }
  if (command == "timeline") {
    if (settings.events.path.empty() || settings.out.empty())
      refuse("'troupe timeline' needs a folder of flight recorders and a file "
             "to draw, for example troupe timeline logs/flight --out "
             "run.trace.json");
    check_output("out", settings.out);
    return true;
  }
  if (command == "report") {
    if (settings.events.path.empty() || settings.out.empty())
      refuse("'troupe report' needs the summary of a run and a file for its "
             "report, for example troupe report run.json run.html");
    if (is_one_place(settings.events.path, settings.out))
      refuse("'troupe report' would write over the summary that it reads: name "
             "another file");
    check_output("out", settings.out);
    return true;
  }
  if (command == "doctor") {
    if (settings.given.count("metrics-address") > 0)
      for (const auto* flag : {"listen", "coordinator", "data", "devices"})
        if (settings.given.count(flag) > 0)
          refuse("--" + std::string{flag} + " is of a machine, and "
                 + settings.metrics_address
                 + " is a run's: ask for one of them");
    return true;
  }
  if (command == "status" || command == "top") {
    if (settings.given.count("metrics-address") == 0)
      refuse("'troupe " + command
             + "' needs the address that the run printed as metrics, for "
               "example troupe "
             + command + " 127.0.0.1:9400");
    check_address(settings, "metrics-address", settings.metrics_address);
    return true;
  }
  return false;
}

} // namespace

void check_settings(const Settings& settings, const Flags& flags) {
  const auto& command = settings.command;
  auto shown = settings.print_config; // asks what holds, runs nothing
  if (command == "role" && !shown)
    check_role(settings);
  auto joins = command == "role" && settings.role
               && settings.role->kind != RoleKind::coordinator;
  auto plans = (bit_of(command) & on_jobs) != 0;
  if (!joins)
    refuse_idle_data_flags(settings, flags);
  // A role that joins gets its job from the coordinator.
  if (plans && !joins) {
    refuse_idle_flags(settings, flags);
    check_values(settings);
    check_job(settings);
  }
  check_outputs(settings);
  if (!shown && !goes_on(settings)) {
    const auto config = flags.find("config");
    check_inputs(settings, config == flags.end() ? "" : config->second);
  }
  if (command == "model show") {
    if (!settings.job.data.empty())
      parse_data_spec(settings.job.data);
    if (settings.job.virtual_ranks > settings.job.global_batch)
      refuse("--virtual-ranks " + std::to_string(settings.job.virtual_ranks)
             + " are more than --global-batch "
             + std::to_string(settings.job.global_batch)
             + " samples; make one of them fit");
    if (settings.job.cut.virtual_slices > 1 && settings.format == "json")
      refuse("--virtual-slices has no effect with --format json, which shows "
             "the model before it is cut; drop one of them");
    return;
  }
  if (command == "data info") {
    require_flag(settings, settings.job.data, "data", "csv:FILE");
    parse_surveyed_spec(settings.job.data);
    return;
  }
  if (check_observer(settings))
    return;
  auto reads = command == "evaluate" || command == "predict";
  if (reads) {
    if (settings.job.devices.size() > 1)
      refuse("'troupe " + command + "' uses one device, not "
             + std::to_string(settings.job.devices.size())
             + "; name one, for example --devices cpu:1");
    make_graph(settings.job.model);
    const auto parse = command == "predict" ? parse_data_spec
                                            : parse_labelled_spec;
    if (!settings.job.data.empty())
      parse(settings.job.data);
    if (!settings.job.eval_data.empty())
      parse(settings.job.eval_data);
  }
  check_bench(settings);
  if (shown)
    return;
  if (reads || command == "train" || (command == "role" && !joins))
    require_flag(settings, settings.job.data, "data", "synthetic:digits");
  if (reads)
    require_flag(settings, settings.checkpoint, "checkpoint",
                 "digits.safetensors");
  if (command == "predict")
    require_flag(settings, settings.out, "out", "predictions.txt");
  if (command == "bench data" && !settings.job.data.empty())
    parse_labelled_spec(settings.job.data);
  if (command == "bench data")
    require_flag(settings, settings.job.data, "data", "synthetic:digits");
  if (command == "bench step")
    require_flag(settings, settings.job.data, "data", "synthetic:digits");
  if (command == "voter") {
    require_flag(settings, settings.journal, "journal", "vote.db");
    require_flag(settings, settings.certificates, "certificates", "certs");
  }
  check_address(settings, "listen", settings.listen);
  check_address(settings, "metrics-address", settings.metrics_address);
  check_address(settings, "coordinator", settings.coordinator);
  if (command != "plan") // it writes none
    check_files(settings);
}

} // namespace troupe
