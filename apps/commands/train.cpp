#include "actors/job/stage_mesh.hpp"
#include "actors/process/stop_status.hpp"
#include "actors/replica/link_groups.hpp"
#include "apps/process/chrome_trace.hpp"
#include "apps/process/made_folders.hpp"
#include "apps/process/process_limits.hpp"
#include "apps/process/role_launch.hpp"
#include "apps/process/run_display.hpp"
#include "apps/process/run_files.hpp"
#include "apps/process/run_folder.hpp"
#include "apps/settings/commands.hpp"
#include "apps/settings/devices.hpp"
#include "apps/settings/flags.hpp"
#include "apps/tensorboard/event_log.hpp"
#include "apps/terminal/shell_word.hpp"
#include "kernels/base/error.hpp"
#include "kernels/cpu/device.hpp"
#include "kernels/engine/replica.hpp"
#include "kernels/files/folder_lock.hpp"

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace troupe {
namespace {

/// What runs are compared by, given or not.
const std::set<std::string> usual_parameters{
  "model", "strategy",  "workers", "ps",   "virtual-ranks", "global-batch",
  "lr",    "optimizer", "seed",    "data", "precision",     "weight-decay"};

/// What can be known before anything is loaded or started.
void check_machine(const Settings& settings, bool elsewhere) {
  require_working_directory();
  if (elsewhere) // what others have is theirs to say
    return;
  const Job job{settings.job, settings.job.global_batch};
  const auto needs = needs_of_run(job, settings.standby);
  require_allowed(needs);
  require_memory_files(job.plan);
  if (!settings.leads) { // others have roles, too
    require_memory(job);
    if (on_processors(job.options))
      kernels::require_on_cpu(job.precision());
  }
  require_address_space(needs);
}

/// A timeline that cannot be drawn is told at the end of a run's line.
void draw_timeline_of(const Settings& settings, const std::string& flight,
                      RunResult& result) {
  if (settings.timeline.empty())
    return;
  try {
    result.line += "; " + draw_timeline(flight, settings.timeline);
  } catch (const InputError& failure) {
    result.status = std::max(result.status, 1);
    result.line += std::string{"; no timeline: "} + failure.what();
  }
}

/// Null: none is asked for.
std::unique_ptr<EventLog> event_log_of(const Settings& settings) {
  if (settings.tensorboard.empty())
    return nullptr;
  const Job job{settings.job, settings.job.global_batch};
  EventLog::Subject subject{job.graph, job.lr, {}};
  for (const auto& flag : all_flags())
    if ((flag.commands & on_train) != 0 && flag.get
        && (settings.given.count(flag.name) > 0
            || usual_parameters.contains(flag.name)))
      subject.parameters[flag.name] = flag.get(settings);
  return std::make_unique<EventLog>(settings.tensorboard, subject);
}

/// Those that a run makes where they are not there.
std::vector<std::string> folders_of(const Settings& settings) {
  const auto& logs = settings.log_dir;
  return {logs, logs.empty() ? logs : logs + "/flight",
          settings.records() ? settings.flight : "", settings.checkpoints.dir};
}

} // namespace

int run_train(const Settings& settings, RoleHosts* hosts) {
  const RunTime time;
  // What parts of a model need is asked of their operators.
  select_isa(settings.job.isa);
  check_machine(settings, hosts != nullptr);
  MadeFolders folders{folders_of(settings)}; // goes last
  Interrupt interrupt;
  Console console{settings.quiet, settings.color, Console::redraws(stdout),
                  stdout};
  RunOptions run;
  run.job = settings.job;
  run.save = settings.save;
  run.checkpoints = settings.checkpoints;
  run.min_workers = settings.min_workers;
  run.log_every = settings.log_every;
  run.metrics_address = settings.metrics_address;
  run.metrics_token = metrics_token_of(settings);
  run.certificates = certificate_source(settings);
  run.journal = settings.journal;
  run.allow_faults = settings.allow_faults;
  run.restarts = settings.restarts;
  run.replans = settings.on_loss == "replan";
  run.events = shown_on(console, interrupt, settings.log_every);
  if (settings.log_level == "error")
    run.events.note = {};
  const auto tensorboard = event_log_of(settings);
  if (tensorboard)
    tensorboard->attach(run.events);
  // Recorders lie where they are asked for, or with the logs, where there are
  // some; else they go with the run, unless it ends badly. What other hosts
  // have kept comes there at the end.
  std::optional<RunFolder> own_flight;
  if (settings.records()) {
    run.flight = settings.flight;
    if (run.flight.empty() && !settings.log_dir.empty())
      run.flight = settings.log_dir + "/flight";
    if (run.flight.empty())
      interrupt.undisturbed([&] {
        run.flight = folder_of_recorders(own_flight);
        if (own_flight)
          interrupt.removes(run.flight);
      });
  }
  std::optional<FolderLock> recorders;
  const auto keep_recorders = [&](const std::string& flag) {
    if (!recorders.emplace(run.flight).held())
      throw InputError(
        flag + run.flight + ": another run has its recorders there, "
        + recorders->holder() + "; wait for its end, or name another folder");
  };
  if (run.flight == settings.flight && !run.flight.empty())
    keep_recorders("--flight ");
  if (!run.flight.empty()) // roles may run elsewhere
    run.flight = std::filesystem::absolute(run.flight).string();
  const auto end_run = [&](RunResult& result) {
    write_run_files(settings, run.flight, time.until_now(), result);
    draw_timeline_of(settings, run.flight, result);
    if (own_flight && result.status != 0 && !is_stop_status(result.status)
        && own_flight->keep() && run.events.note)
      run.events.note("what each role did last: troupe events --flight "
                      + shell_word(run.flight));
    if (!result.summary.empty())
      folders.keep();
    if (tensorboard)
      tensorboard->end(result.status == 0);
    return conclude(console, result);
  };
  if (is_of_plugin(settings.job.devices.front()) && run.events.note)
    run.events.note("devices of PJRT plugins were tried with XLA on CPUs, not "
                    "on a TPU: docs/tpu.md");
  RoleOutput output{settings.log_dir}; // the folder is this run's alone
  if (!recorders && !own_flight && !run.flight.empty())
    keep_recorders("--log-dir " + settings.log_dir + ": ");
  if (!settings.job.processes) {
    auto result = run_in_process(run, load_job_data(settings.job));
    return end_run(result);
  }
  if (const auto line = needless_compression(settings.job);
      !line.empty() && settings.job.link != "tcp" && run.events.note)
    run.events.note(line);
  const bool shows = settings.log_level == "info"
                     || settings.log_level == "debug";
  if (hosts)
    run.events.reshape = [hosts] { return hosts->wish(); };
  run.events.stop = [&] {
    auto lines = output.take_notes();
    if (hosts)
      std::ranges::move(hosts->take_notes(), std::back_inserter(lines));
    for (const auto& line : lines)
      if (run.events.note)
        run.events.note(line);
    if (shows)
      for (const auto& line : output.take_new())
        console.line(line);
    return interrupt.reason();
  };
  auto result = launch_roles(settings, run, output, &interrupt, hosts);
  if (result.status != 0 && !is_stop_status(result.status)) {
    console.done();
    for (const auto& line : output.last_words(result.line))
      console.line(line);
  }
  return end_run(result);
}

} // namespace troupe
