#include "apps/role_launch.hpp"

#include "actors/actor_node.hpp"
#include "apps/run_folder.hpp"
#include "kernels/error.hpp"

#include <filesystem>
#include <fstream>

namespace troupe {
namespace {

/// A run never writes into the journal of another one.
std::string journal_of(const Settings& settings, const RunFolder& folder) {
  namespace fs = std::filesystem;
  if (!settings.journal.empty()) {
    if (fs::exists(settings.journal))
      throw InputError("--journal " + settings.journal
                       + ": is there already (`troupe events "
                       + settings.journal
                       + "` shows its run); remove it or name another file");
    return fs::absolute(settings.journal).string();
  }
  if (settings.log_dir.empty())
    return folder.file("journal.db");
  auto path = fs::absolute(settings.log_dir) / "journal.db";
  for (int number = 2; fs::exists(path); ++number)
    path.replace_filename("journal-" + std::to_string(number) + ".db");
  return path.string();
}

} // namespace

RunResult launch_roles(const Settings& settings, const RunOptions& run,
                       RoleOutput& output) {
  // From here on a signal is heard, so that the folder goes with the run.
  if (auto why = run.events.stop ? run.events.stop() : ""; !why.empty())
    return {130, why + " before the first step: nothing was saved", ""};
  RunFolder folder;
  const auto config = folder.file("job.toml");
  auto coordinator = settings;
  coordinator.journal = journal_of(settings, folder);
  std::ofstream{config} << to_toml(coordinator);
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
  launch.journal = coordinator.journal;
  launch.on_line = [&output](const std::string& role, const std::string& line) {
    output.add(role, line);
  };
  return run_processes(run, launch);
}

} // namespace troupe
