#include "actors/process/random_hex.hpp"
#include "actors/wire/version.hpp"
#include "apps/launch/kubernetes.hpp"
#include "apps/settings/commands.hpp"
#include "apps/settings/devices.hpp"
#include "kernels/base/error.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

namespace troupe {
namespace {

constexpr size_t metrics_token_bytes = 32;

/// A pod has what it asks for, whatever this machine has.
Surroundings surroundings_of_pod() {
  Surroundings out;
  out.cuda_devices = [] { return 1u; };
  return out;
}

/// The job that follows --, as `troupe plan` takes it: files are those of pods.
Settings job_in_pods(std::vector<std::string> arguments) {
  arguments.front() = "plan";
  if (std::ranges::any_of(arguments, [](const std::string& word) {
        return word == "--config" || word.starts_with("--config=");
      }))
    throw UsageError("launch: --config names a file of this machine, which "
                     "pods do not have; give its keys as flags");
  if (std::ranges::find(arguments, "--processes") == arguments.end())
    arguments.insert(arguments.begin() + 1, "--processes");
  auto job = parse_settings(arguments, surroundings_of_pod());
  for (const auto* flag : {"listen", "certificates", "metrics-address",
                           "metrics-token", "journal"})
    if (job.given.contains(flag))
      throw UsageError("launch: --" + std::string{flag}
                       + " is chosen by --kubernetes; leave it out");
  if (job.job.data.empty())
    throw UsageError("launch: --data is missing, for example --data "
                     "synthetic:digits");
  if (job.job.devices.size() > 1
      && std::ranges::any_of(job.job.devices, [](const std::string& device) {
           return device.starts_with("cuda:");
         }))
    throw UsageError("launch: --devices " + print_devices(job.job.devices)
                     + ": each role is a pod of its own, with one GPU; use "
                       "--devices cuda:0 and more workers");
  if (is_of_plugin(job.job.devices.front()))
    throw UsageError("launch: --kubernetes asks for no devices of plugins yet; "
                     "use --devices cpu:1 or cuda:0");
  return job;
}

/// What the coordinator's pod is started with: the flags that were given, and
/// what else would follow from the machine that it is on.
std::vector<std::string> flags_of_coordinator(const LaunchFlags& launch,
                                              const Settings& job) {
  std::vector<std::string> out(launch.job.begin() + 1, launch.job.end());
  std::erase(out, "--processes");
  if (!job.given.contains("devices"))
    out.insert(out.end(), {"--devices", print_devices(job.job.devices)});
  if (!job.given.contains("threads-per-device"))
    out.insert(out.end(), {"--threads-per-device",
                           std::to_string(job.job.threads_per_device)});
  // That it takes them is known before a pod finds out.
  std::vector<std::string> trial{"role", "coordinator", "--print-config"};
  trial.insert(trial.end(), out.begin(), out.end());
  try {
    parse_settings(trial, surroundings_of_pod());
  } catch (const UsageError& mistake) {
    throw UsageError(std::string{"launch: in a pod: "} + mistake.what());
  }
  return out;
}

MemberName member_of_kind(const std::string& kind, uint32_t number) {
  return parse_member_name(kind + ':' + std::to_string(number)).value();
}

/// A file that others may read is no place for keys.
void warn_of_readers() {
  struct stat file {};
  if (::fstat(STDOUT_FILENO, &file) == 0 && S_ISREG(file.st_mode)
      && (file.st_mode & (S_IRGRP | S_IROTH)) != 0)
    std::fputs("troupe: what is written holds the keys of the job, and others "
               "may read this file: chmod 600\n",
               stderr);
}

} // namespace

int print_kubernetes(const Settings& settings) {
  const auto job = job_in_pods(settings.launch.job);
  KubernetesJob out;
  out.flags = settings.launch.kubernetes;
  if (out.flags.image.empty())
    out.flags.image = std::string{"troupe:"} + version;
  out.job = flags_of_coordinator(settings.launch, job);
  out.roles = kubernetes_roles(job);
  // It evaluates, and keeps a copy of what is saved.
  out.coordinator.kind = "coordinator";
  for (const auto& role : out.roles) {
    out.coordinator.cores = std::max(out.coordinator.cores, role.cores);
    out.coordinator.gpus = std::max(out.coordinator.gpus, role.gpus);
    out.coordinator.memory_mib = std::max(out.coordinator.memory_mib,
                                          role.memory_mib);
  }
  KubernetesKeys keys;
  keys.authority = make_authority(certificate_source(job));
  for (const auto& role : out.roles)
    for (uint32_t number = 0; number < role.count; ++number)
      keys.members.push_back(
        make_member(keys.authority, member_of_kind(role.kind, number)));
  keys.metrics_token = random_hex(metrics_token_bytes);
  std::fputs(kubernetes_manifest(out, keys).c_str(), stdout);
  warn_of_readers();
  return 0;
}

} // namespace troupe
