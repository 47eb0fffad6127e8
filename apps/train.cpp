#include "apps/commands.hpp"
#include "apps/role_launch.hpp"
#include "apps/run_display.hpp"
#include "kernels/replica.hpp"

#include <unistd.h>

namespace troupe {
int run_train(const Settings& settings) {
  Interrupt interrupt;
  select_isa(settings.job.isa);
  Console console{settings.quiet, settings.color, isatty(STDOUT_FILENO) != 0,
                  stdout};
  RunOptions run;
  run.job = settings.job;
  run.save = settings.save;
  run.checkpoints = settings.checkpoints;
  run.least_workers = settings.least_workers;
  run.metrics_address = settings.metrics_address;
  run.journal = settings.journal;
  run.events = shown_on(console, interrupt, settings.log_every);
  if (settings.log_level == "error")
    run.events.note = {};
  if (!settings.job.processes) {
    auto result = run_in_process(run, load_job_data(settings.job));
    write_summary(settings, result);
    return conclude(console, result);
  }
  RoleOutput output{settings.log_dir};
  const bool shows = settings.log_level == "info"
                     || settings.log_level == "debug";
  run.events.stop = [&] {
    for (const auto& line : output.take_notes())
      if (run.events.note)
        run.events.note(line);
    if (shows)
      for (const auto& line : output.take_new())
        console.line(line);
    return interrupt.reason();
  };
  auto result = launch_roles(settings, run, output);
  write_summary(settings, result);
  if (result.status != 0 && result.status != 130) {
    console.done();
    for (const auto& line : output.last_lines())
      console.line(line);
  }
  return conclude(console, result);
}

} // namespace troupe
