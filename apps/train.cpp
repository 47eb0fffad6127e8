#include "actors/actor_node.hpp"
#include "apps/commands.hpp"
#include "apps/role_output.hpp"
#include "apps/run_display.hpp"
#include "kernels/error.hpp"
#include "kernels/replica.hpp"

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace troupe {
namespace {

/// A private folder that goes with the run.
class RunFolder {
public:
  RunFolder() {
    auto pattern =
      (std::filesystem::temp_directory_path() / "troupe-XXXXXX").string();
    if (mkdtemp(pattern.data()) == nullptr)
      throw InputError("cannot create a folder in "
                       + std::filesystem::temp_directory_path().string()
                       + ": set TMPDIR to one that is writable");
    path_ = pattern;
  }
  ~RunFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  RunFolder(const RunFolder&) = delete;
  RunFolder& operator=(const RunFolder&) = delete;

  std::string file(const std::string& name) const { return path_ + "/" + name; }

private:
  std::string path_;
};

RunResult launch(const Settings& settings, const RunOptions& run,
                 RoleOutput& output) {
  // From here on a signal is heard, so that the folder goes with the run.
  if (auto why = run.events.stop(); !why.empty())
    return {130, why + " before the first step: nothing was saved", ""};
  RunFolder folder;
  const auto config = folder.file("job.toml");
  std::ofstream{config} << to_toml(settings);
  const auto certificates = settings.certificates.empty()
                              ? folder.file("certificates")
                              : settings.certificates;
  make_credentials(certificates);
  LaunchOptions launch;
  launch.program = std::filesystem::read_symlink("/proc/self/exe").string();
  launch.coordinator_arguments = {"role",           "coordinator",
                                  "--config",       config,
                                  "--listen",       settings.listen,
                                  "--certificates", certificates};
  launch.certificates = certificates;
  launch.on_line = [&output](const std::string& role, const std::string& line) {
    output.add(role, line);
  };
  return run_processes(run, launch);
}

} // namespace

int run_train(const Settings& settings) {
  Interrupt interrupt;
  select_isa(settings.job.isa);
  Console console{settings.quiet, settings.color, isatty(STDOUT_FILENO) != 0,
                  stdout};
  RunOptions run;
  run.job = settings.job;
  run.save = settings.save;
  run.metrics_address = settings.metrics_address;
  run.events = shown_on(console, interrupt, settings.log_every);
  if (settings.log_level == "error")
    run.events.note = {};
  if (!settings.job.processes)
    return conclude(console, settings,
                    run_in_process(run, load_job_data(settings.job)), true);
  RoleOutput output{settings.log_dir};
  if (settings.log_level == "info" || settings.log_level == "debug")
    run.events.stop = [&] {
      for (const auto& line : output.take_new())
        console.line(line);
      return interrupt.reason();
    };
  auto result = launch(settings, run, output);
  if (result.status != 0 && result.status != 130) {
    console.done();
    for (const auto& line : output.last_lines())
      console.line(line);
  }
  return conclude(console, settings, result, false);
}

} // namespace troupe
