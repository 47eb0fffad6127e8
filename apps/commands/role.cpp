#include "actors/certificates/petitioner.hpp"
#include "actors/compute/leaf_computer.hpp"
#include "actors/control/actor_node.hpp"
#include "actors/control/peer_directory.hpp"
#include "actors/launch/evaluator_process.hpp"
#include "actors/launch/role_host.hpp"
#include "actors/process/flight_recorder.hpp"
#include "actors/process/sign_of_life.hpp"
#include "actors/wire/version.hpp"
#include "apps/chaos/fault_proxy.hpp"
#include "apps/process/name_lock.hpp"
#include "apps/process/own_journal.hpp"
#include "apps/process/process_limits.hpp"
#include "apps/process/run_display.hpp"
#include "apps/process/run_files.hpp"
#include "apps/process/run_folder.hpp"
#include "apps/settings/commands.hpp"
#include "apps/terminal/numbers.hpp"
#include "apps/terminal/shell_word.hpp"
#include "kernels/base/error.hpp"
#include "kernels/engine/replica.hpp"
#include "kernels/files/atomic_file.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <limits>
#include <optional>
#include <span>

namespace troupe {
namespace {

/// A job that goes on has its certificates, and so have its members: with a new
/// authority none of them would be let in.
void ready_certificates(const Settings& settings) {
  namespace fs = std::filesystem;
  std::error_code failure;
  if (settings.journal.empty() || !fs::exists(settings.journal, failure))
    make_credentials(certificate_source(settings), coordinator_name);
  else if (!fs::exists(settings.certificates, failure))
    throw InputError("certificates: " + settings.certificates
                     + " is not there, and the job of --journal "
                     + settings.journal
                     + " goes on with those that it began with: put the folder "
                       "back, or copy it from another host");
}

/// With a certificate in place there is nothing to join with: so the same
/// command starts a role again.
void join_by_token(const Settings& settings, Interrupt& interrupt) {
  const auto source = certificate_source(settings);
  const auto name = settings.paired ? MemberName{MemberName::Kind::sharded,
                                                 settings.role->index}
                                    : name_of(*settings.role);
  std::error_code failure;
  for (const auto& file : {file_stem(name) + ".pem", std::string{signer_file}})
    if (std::filesystem::exists(source.path + '/' + file, failure))
      return;
  const auto token = parse_token(settings.token);
  if (!token)
    throw InputError("--token: is no token; take all that troupe certificates "
                     "token prints");
  const bool signs = token->name.kind == MemberName::Kind::authority
                     && name == coordinator_name;
  if (token->name != name && !signs)
    throw InputError("--token is for " + to_string(token->name)
                     + ", and this is " + to_string(name));
  const auto made = join_with(*token, settings.coordinator, source,
                              std::chrono::seconds{10});
  interrupt.undisturbed([&] {
    if (signs)
      save_authority(source.path, made);
    else
      save_credentials(source.path, made);
  });
}

/// A launcher waits as long as it is said that this goes on.
JobData read_data(const JobOptions& job,
                  const std::function<void(const std::string&)>& say) {
  SignOfLife reading{say,
                     {"the data are still being read", std::chrono::seconds{10},
                      std::numeric_limits<int>::max()}};
  reading.begin();
  return load_job_data(job);
}

/// Whether a role got as far as to do something.
bool has_spans(const std::string& folder) {
  try {
    return std::ranges::any_of(read_flights(folder).all, [](const Flight& x) {
      return !x.spans.empty();
    });
  } catch (const InputError&) {
    return false;
  }
}

int play_coordinator(const Settings& settings) {
  const RunTime time;
  const auto began = std::chrono::steady_clock::now();
  Interrupt interrupt;
  select_isa(settings.job.isa);
  Console console{settings.quiet, settings.color, Console::redraws(stdout),
                  stdout};
  RunOptions run;
  run.job = settings.job;
  run.job.processes = true;
  run.save = settings.save;
  run.checkpoints = settings.checkpoints;
  run.min_workers = settings.min_workers;
  run.log_every = settings.log_every;
  run.metrics_address = settings.metrics_address;
  run.metrics_token = metrics_token_of(settings);
  run.journal = settings.journal;
  run.flight = settings.records() ? settings.flight : "";
  run.allow_faults = settings.allow_faults;
  run.restarts = settings.restarts;
  run.replans = settings.on_loss == "replan";
  run.began = began;
  run.events = shown_on(console, interrupt, settings.log_every);
  // A launcher waits for the address on this process's standard output.
  run.events.note = [&console](const std::string& line) {
    if (line.starts_with(listening_prefix)) {
      std::printf("%s\n", line.c_str());
      std::fflush(stdout);
    } else {
      console.line(line);
    }
  };
  run.events.over = [&settings, &time](RunResult& result) {
    write_run_files(settings, settings.records() ? settings.flight : "",
                    time.until_now(), result);
  };
  CoordinatorProcess process;
  process.launched = settings.supervised;
  process.listen = settings.listen;
  process.certificates = certificate_source(settings);
  if (!settings.voters.empty())
    process.voters = split_list(settings.voters);
  process.voter = settings.voter;
  if (!settings.token.empty())
    join_by_token(settings, interrupt);
  interrupt.undisturbed([&settings] { ready_certificates(settings); });
  NameLock lock; // of a voter's
  if (!settings.voters.empty() && !settings.supervised)
    interrupt.undisturbed([&] {
      lock = lock_journal(settings.journal);
      interrupt.removes(lock.path());
    });
  std::optional<OwnJournal> own;
  if (settings.journal.empty() && settings.voters.empty()) {
    interrupt.undisturbed([&] {
      own.emplace(settings.certificates, settings.listen);
      if (!own->lock_path().empty())
        interrupt.removes(own->lock_path());
    });
    run.journal = own->path();
    if (!own->why().empty())
      run.notes->put("no journal is kept, so the run ends with this process: "
                     + own->why());
  }
  const auto data = read_data(settings.job, run.events.note);
  // From here on it ends in good order, and its journal goes with it.
  interrupt.reason();
  auto result = run_coordinator_process(run, data, process);
  if (own)
    own->remove();
  return conclude(console, result);
}

std::string summary_of(const std::vector<EvaluatedCheckpoint>& all) {
  nlohmann::ordered_json json;
  json["version"] = version;
  json["evaluations"] = nlohmann::ordered_json::array();
  for (const auto& one : all) {
    nlohmann::ordered_json row{{"step", one.step}, {"samples", one.samples}};
    for (const auto& measure : one.measures)
      row["eval"][measure.name] = measure.value;
    row["weights_sha256"] = one.weights_sha256;
    json["evaluations"].push_back(std::move(row));
  }
  return json.dump(2) + '\n';
}

int play_evaluator(const Settings& settings, const Interrupt& interrupt) {
  if (settings.checkpoints.dir.empty())
    throw UsageError("role " + to_string(*settings.role)
                     + ": --checkpoint-dir DIR is missing, the folder that the "
                       "job writes its checkpoints to");
  Console console{settings.quiet, settings.color, false, stdout};
  EvaluatorProcess evaluator;
  evaluator.role = *settings.role;
  evaluator.coordinator = settings.coordinator;
  evaluator.certificates = certificate_source(settings);
  evaluator.checkpoint_dir = settings.checkpoints.dir;
  evaluator.tell = [&console](const std::string& line) { console.line(line); };
  evaluator.leave = [&interrupt] { return interrupt.reason(); };
  const auto text = summary_of(run_evaluator_process(evaluator));
  if (!settings.summary.empty())
    write_atomically(settings.summary, {std::as_bytes(std::span{text})});
  return 0;
}

} // namespace

int run_role(const Settings& settings) {
  if (!settings.role)
    throw UsageError("role: name one (worker:0, ps:1, coordinator), or set "
                     "TF_CONFIG");
  require_allowed(needs_of_role());
  require_address_space(needs_of_role());
  if (settings.certificates.empty())
    throw UsageError("role: --certificates DIR is missing; the coordinator "
                     "makes them in its own DIR, copy that folder");
  if (settings.role->kind == RoleKind::coordinator)
    return play_coordinator(settings);
  if (settings.coordinator.empty())
    throw UsageError("role " + to_string(*settings.role)
                     + ": --coordinator HOST:PORT is missing");
  Interrupt interrupt{settings.supervised};
  if (settings.role->kind == RoleKind::evaluator)
    return play_evaluator(settings, interrupt);
  if (!settings.token.empty())
    join_by_token(settings, interrupt);
  RoleProcessOptions role;
  role.role = *settings.role;
  role.paired = settings.paired;
  role.by_hand = !settings.supervised;
  role.coordinator = settings.coordinator;
  role.certificates = certificate_source(settings);
  if (settings.given.contains("listen"))
    role.listen = settings.listen;
  role.state_descriptor = settings.state_fd;
  if (settings.given.contains("isa"))
    role.isa = settings.job.isa;
  role.plugin = settings.job.plugin;
  if (settings.given.contains("devices"))
    role.device_plugin = plugin_of_device(settings.job.devices.front());
  role.allow_faults = settings.allow_faults;
  std::optional<RunFolder> own_flight;
  if (settings.records())
    role.flight = settings.flight;
  if (settings.flight.empty())
    interrupt.undisturbed([&] {
      role.flight = folder_of_recorders(own_flight, to_string(role.role));
      if (own_flight)
        interrupt.removes(role.flight);
    });
  if (const auto* proxy = std::getenv(link_proxy_variable))
    role.link_proxy = proxy;
  const auto control = control_proxy_of(to_string(role.role),
                                        std::getenv(control_proxy_variable));
  if (!control.empty())
    role.coordinator = control;
  role.leave = [&interrupt] { return interrupt.reason(); };
  try {
    run_role_process(role);
  } catch (...) {
    if (own_flight && has_spans(own_flight->path()) && own_flight->keep())
      std::printf("what it did last: troupe events --flight %s\n",
                  shell_word(own_flight->path()).c_str());
    throw;
  }
  return 0;
}

} // namespace troupe
