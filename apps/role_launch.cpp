#include "apps/role_launch.hpp"

#include "actors/actor_node.hpp"
#include "apps/run_folder.hpp"

#include <filesystem>
#include <fstream>

namespace troupe {
RunResult launch_roles(const Settings& settings, const RunOptions& run,
                       RoleOutput& output) {
  // From here on a signal is heard, so that the folder goes with the run.
  if (auto why = run.events.stop ? run.events.stop() : ""; !why.empty())
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

} // namespace troupe
