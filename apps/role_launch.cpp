#include "apps/role_launch.hpp"

#include "actors/actor_node.hpp"
#include "kernels/error.hpp"

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

} // namespace

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
