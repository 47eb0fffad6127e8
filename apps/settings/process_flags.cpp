#include "apps/settings/binding.hpp"

namespace troupe {

namespace {

using namespace binding;

constexpr uint64_t on_runs = on_train | on_plan | on_role;
constexpr uint64_t on_files = on_evaluate | on_predict;
constexpr uint64_t on_control = on_ctl | on_reshape | on_move;
constexpr uint64_t on_members = on_certificates | on_sign | on_token
                                | on_petition;

void add(std::vector<Flag>& flags, uint64_t commands, const char* group,
         const char* name, const char* value, const char* fallback,
         const char* help, const Binding& binding) {
  flags.push_back({name, value, FlagType::text, commands, group, fallback, help,
                   binding.set, binding.get});
}

void add_files(std::vector<Flag>& flags) {
  constexpr auto group = "Files";
  add(flags, on_runs, group, "save", "FILE", "none",
      "write the trained weights (safetensors), also after Ctrl-C",
      text(FIELD(save)));
  add(flags, on_runs | on_evaluate, group, "summary", "FILE", "none",
      "write what the run did as one JSON object", text(FIELD(summary)));
  add(flags, on_runs, group, "report", "FILE", "none",
      "write what the run did as one page of HTML: curves, where each role's "
      "time went, what was lost and made up for",
      text(FIELD(report)));
  add(flags, on_report, "", "out", "FILE", "", "",
      {text(FIELD(out)).set, nullptr});
  add(flags, on_files | on_generate, group, "checkpoint", "FILE", "required",
      "weights to read: safetensors, or a --checkpoint-dir",
      text(FIELD(checkpoint)));
  add(flags, on_export, group, "out", "FILE", "required",
      "write the weights here (safetensors)", {text(FIELD(out)).set, nullptr});
  add(flags, on_export, group, "layout", "NAME", "troupe",
      "troupe; hugging_face: --out is a folder for config.json and "
      "model.safetensors, as transformers loads GPT-2 and Llama",
      {choice(FIELD(layout), {"troupe", "hugging_face"}).set, nullptr});
  add(flags, on_timeline, group, "out", "FILE", "required",
      "write the trace here", {text(FIELD(out)).set, nullptr});
  add(flags, on_predict, group, "output", "WHAT", "class",
      "class, probabilities or logits of classes; numbers are written as they "
      "are",
      choice(FIELD(output), {"class", "probabilities", "logits"}));
  add(flags, on_predict, group, "out", "FILE", "required",
      "write what is predicted, a line for each sample; an array for NumPy "
      "where the name ends in .npy",
      text(FIELD(out)));
  add(flags,
      on_bench | on_kernels | on_reduce | on_null | on_server | on_chaos
        | on_recovery | on_goodput | on_pipeline | on_source,
      group, "json", "FILE", "none", "write the figures as a JSON list",
      text(FIELD(json)));
  add(flags, on_all | on_kernels | on_model, group, "config", "FILE", "none",
      "TOML with a key for each flag; flags and TF_CONFIG come first",
      {[](Settings&, const std::string&) {}, nullptr});
  add(flags, on_all | on_kernels | on_model, group, "print-config", "", "no",
      "print what holds as such a file, and exit",
      {toggle(FIELD(print_config), true).set, nullptr});
  flags.back().type = FlagType::toggle;
}

void add_connections(std::vector<Flag>& flags) {
  constexpr auto group = "Connections";
  add(flags, on_runs | on_status | on_top | on_doctor, group, "metrics-address",
      "HOST:PORT", "127.0.0.1:0, a free port",
      "where Prometheus finds the metrics, and a browser the page of the run, "
      "over plain HTTP; printed at the start; not local: HTTPS with a token, "
      "needs --certificates; status, top, "
      "doctor: of which run",
      address(FIELD(metrics_address)));
  add(flags, on_runs | on_status | on_top | on_doctor, group, "metrics-token",
      "FILE", "metrics-token in --certificates",
      "what readers of metrics show where these leave the host; a coordinator "
      "makes it where there is none",
      text(FIELD(metrics_token)));
  add(flags, on_runs | on_voter | on_doctor, group, "listen", "HOST:PORT",
      "127.0.0.1:0, a free port",
      "where roles reach this one; not local: needs --certificates",
      address(FIELD(listen)));
  add(flags, on_role | on_control | on_petition | on_doctor, group,
      "coordinator", "HOST:PORT", "from TF_CONFIG",
      "where the coordinator listens; with a standby both, with a comma",
      addresses(FIELD(coordinator)));
  add(flags, on_train | on_plan, group, "standby", "", "no",
      "start a second coordinator, which takes over when the first is lost; "
      "needs --processes",
      toggle(FIELD(standby), true));
  flags.back().type = FlagType::toggle;
  add(flags, on_runs, group, "restarts", "N", "5",
      "how often roles are started again without a step committed between; 0: "
      "never",
      whole(FIELD(restarts), 0, 1'000));
  flags.back().type = FlagType::number;
  add(flags, on_runs, group, "on-loss", "NAME", "end",
      "when a stage or tensor member is started no more: end the run; replan: "
      "deal its layers anew to the devices that are left, by the mesh that is "
      "best for those; needs --processes and --checkpoint-dir",
      choice(FIELD(on_loss), {"end", "replan"}));
  add(
    flags, on_runs, group, "allow-faults", "", "no",
    "let who has the operator's certificate put faults into the job, as troupe "
    "chaos does",
    toggle(FIELD(allow_faults), true));
  flags.back().type = FlagType::toggle;
  add(flags, on_role, group, "voters", "HOST:PORT,…", "none",
      "role coordinator: who keep the journal, three or five, its own among "
      "them; it is a standby while another one leads",
      addresses(FIELD(voters)));
  add(flags, on_role, group, "voter", "N", "0",
      "role coordinator: which of --voters is its own",
      whole(FIELD(voter), 0, 4));
  flags.back().type = FlagType::number;
  add(flags, on_ctl, "", "consistency", "MODE", "", "",
      {text(FIELD(consistency)).set, nullptr});
  add(flags, on_reshape | on_move, "", "change", "WORDS", "", "",
      {text(FIELD(change)).set, nullptr});
  add(flags, on_move, group, "from", "ps:I", "none", "the shard that gives",
      {text(FIELD(from)).set, nullptr});
  add(flags, on_move, group, "to", "ps:I", "none", "the shard that takes",
      {text(FIELD(to)).set, nullptr});
  add(flags, on_move, group, "slices", "I,…", "all that the first one keeps",
      "numbers of slices", {text(FIELD(slices)).set, nullptr});
  add(flags, on_role, "", "state-fd", "N", "", "",
      {[](Settings& s, const std::string& value) {
         s.state_fd = static_cast<int>(parse_whole(value, 0, 1'000'000));
       },
       nullptr});
  flags.back().type = FlagType::number;
  add(flags, on_role, "", "supervised", "", "", "",
      {toggle(FIELD(supervised), true).set, nullptr});
  flags.back().type = FlagType::toggle;
}

void add_certificates(std::vector<Flag>& flags) {
  constexpr auto group = "Connections";
  add(
    flags,
    on_runs | on_control | on_voter | on_members | on_status | on_top
      | on_doctor,
    group, "certificates", "DIR", "the job makes its own",
    "folder with the job's authority, and its key or a certificate and key of "
    "one's own; or a file with all of it",
    text(FIELD(certificates)));
  add(flags, on_runs | on_sign, group, "certificate-seconds", "N",
      "2592000, 30 days", "how long certificates hold that this process makes",
      whole(FIELD(certificate_seconds), 2, 315'360'000));
  flags.back().type = FlagType::number;
  add(
    flags, on_role, group, "token", "TOKEN", "none",
    "join with it, once (troupe certificates token); the key is made here and "
    "kept in --certificates",
    {text(FIELD(token)).set, nullptr});
  add(flags, on_token, group, "token-seconds", "N", "3600",
      "how long the token may be used",
      {whole(FIELD(token_seconds), 1, 31'536'000).set, nullptr});
  flags.back().type = FlagType::number;
  add(flags, on_sign, group, "out", "DIR", "--certificates",
      "folder to write the member's certificate and key into",
      {text(FIELD(out)).set, nullptr});
  add(flags, on_sign | on_token | on_petition, "", "member", "NAME", "", "",
      {text(FIELD(member)).set, nullptr});
}

void add_output(std::vector<Flag>& flags) {
  constexpr auto group = "Output";
  add(flags, on_train | on_plan | on_top, group, "log-dir", "DIR", "none",
      "keep the output of each role's process in a file here; top: show it",
      text(FIELD(log_dir)));
  add(
    flags, on_train | on_plan | on_role, group, "flight", "DIR",
    "flight in --log-dir; else a private folder, gone after a good end",
    "keep what each role did last in a file here that outlives it, for troupe "
    "timeline; none: nowhere",
    text(FIELD(flight)));
  add(flags, on_train | on_plan, group, "timeline", "FILE", "none",
      "at the end, draw what each role did last, as a Chrome trace (Perfetto)",
      text(FIELD(timeline)));
  add(flags, on_train | on_plan, group, "tensorboard", "DIR", "none",
      "write loss, rates, evaluations, histograms, graph and hyperparameters "
      "for TensorBoard into a file here",
      text(FIELD(tensorboard)));
  add(flags, on_train | on_plan | on_role, group, "histogram-every", "N",
      "100 steps with --tensorboard",
      "steps between histograms of weights and gradients for TensorBoard; 0: "
      "none",
      whole(FIELD(job.histogram_every), 0, 1'000'000'000'000'000));
  add(flags, on_train | on_plan, group, "log-level", "NAME", "warning",
      "error: no notes; warning: restarts and recoveries; info, debug: also "
      "what the roles' processes print",
      choice(FIELD(log_level), {"error", "warning", "info", "debug"}));
  add(flags, on_runs | on_voter, group, "journal", "FILE",
      "with processes: a private file, or journal.db in --log-dir",
      "keep what the coordinator decides here, for troupe events and for the "
      "coordinator that follows one that died; role coordinator: goes on with "
      "the job of a file that is there",
      text(FIELD(journal)));
  add(flags, on_runs, group, "log-every", "N", "0, a line an epoch",
      "steps between plain lines of progress",
      whole(FIELD(log_every), 0, 1'000'000'000'000'000));
  flags.back().type = FlagType::number;
  add(flags, on_model, group, "format", "NAME", "table",
      "table; dot: for Graphviz; json: a model file",
      choice(FIELD(format), {"table", "dot", "json"}));
  add(flags, on_all | on_generate, group, "quiet", "", "no",
      "print nothing but errors; generate: and the text",
      toggle(FIELD(quiet), true));
  flags.back().type = FlagType::toggle;
  add(flags, on_all | on_top, group, "no-color", "", "no",
      "no colours on a terminal", toggle(FIELD(color), false));
  flags.back().type = FlagType::toggle;
}

void add_measuring(std::vector<Flag>& flags) {
  add(flags, on_kernels, "Measuring", "repetitions", "N", "20",
      "measurements of each kernel, of 2 ms or one run",
      whole(FIELD(repetitions), 1, 1'000'000));
  flags.back().type = FlagType::number;
  for (auto& flag : bench_flags())
    flags.push_back(std::move(flag));
}

} // namespace

std::vector<Flag> process_flags() {
  std::vector<Flag> flags;
  add_files(flags);
  add_connections(flags);
  add_certificates(flags);
  add_output(flags);
  add_measuring(flags);
  return flags;
}

std::vector<Flag> all_flags() {
  auto flags = job_flags();
  for (auto& flag : checkpoint_flags())
    flags.push_back(std::move(flag));
  for (auto& flag : process_flags())
    flags.push_back(std::move(flag));
  for (auto& flag : recovery_flags())
    flags.push_back(std::move(flag));
  for (auto& flag : chaos_flags())
    flags.push_back(std::move(flag));
  for (auto& flag : launch_flags())
    flags.push_back(std::move(flag));
  for (auto& flag : events_flags())
    flags.push_back(std::move(flag));
  for (auto& flag : top_flags())
    flags.push_back(std::move(flag));
  for (auto& flag : generate_flags())
    flags.push_back(std::move(flag));
  return flags;
}

std::vector<LaterFlag> later_flags() {
  return {{"chaos", true}};
}

std::vector<std::string> commands() {
  return {"train",  "plan",  "evaluate",     "predict",  "generate",
          "role",   "voter", "bench",        "launch",   "node",
          "status", "top",   "doctor",       "timeline", "report",
          "events", "ctl",   "certificates", "chaos",    "checkpoint",
          "model",  "data",  "version",      "help"};
}

uint64_t bit_of(const std::string& command) {
  if (command == "train")
    return on_train;
  if (command == "plan")
    return on_plan;
  if (command == "evaluate")
    return on_evaluate;
  if (command == "predict")
    return on_predict;
  if (command == "generate")
    return on_generate;
  if (command == "role")
    return on_role;
  if (command == "voter")
    return on_voter;
  if (command == "bench step")
    return on_bench;
  if (command == "bench kernels")
    return on_kernels;
  if (command == "bench all-reduce")
    return on_reduce;
  if (command == "bench null-step")
    return on_null;
  if (command == "bench parameter-server")
    return on_server;
  if (command == "bench pipeline")
    return on_pipeline;
  if (command == "bench data")
    return on_source;
  if (command == "bench recovery")
    return on_recovery;
  if (command == "bench goodput")
    return on_goodput;
  if (command == "chaos")
    return on_chaos;
  if (command == "launch")
    return on_launch;
  if (command == "certificates new")
    return on_sign;
  if (command == "certificates token")
    return on_token;
  if (command == "certificates renew" || command == "certificates revoke")
    return on_petition;
  if (command == "certificates show")
    return on_certificates;
  if (command == "status")
    return on_status;
  if (command == "top")
    return on_top;
  if (command == "doctor")
    return on_doctor;
  if (command == "timeline")
    return on_timeline;
  if (command == "report")
    return on_report;
  if (command == "events")
    return on_events;
  if (command == "model show")
    return on_model;
  if (command == "data info")
    return on_info;
  if (command == "checkpoint export")
    return on_export;
  if (command.starts_with("checkpoint "))
    return on_kept;
  if (command == "ctl consistency")
    return on_ctl;
  if (command == "ctl move-slices")
    return on_move;
  if (command.starts_with("ctl "))
    return on_reshape;
  return 0;
}

std::vector<std::pair<std::string, std::string>> exclusive_flags() {
  return {{"sync", "async"},
          {"sync", "staleness"},
          {"processes", "in-process"},
          {"hosts", "hosts-file"},
          {"eval-data", "eval-fraction"}};
}

} // namespace troupe
