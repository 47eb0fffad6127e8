#include "apps/process/role_launch.hpp"

#include "actors/certificates/member_files.hpp"
#include "actors/control/actor_node.hpp"
#include "actors/launch/kept_coordinator.hpp"
#include "actors/process/child_processes.hpp"
#include "actors/sockets/descriptor.hpp"
#include "actors/sockets/endpoint.hpp"
#include "apps/process/name_lock.hpp"
#include "apps/process/program_image.hpp"
#include "apps/process/reserved_port.hpp"
#include "apps/process/run_folder.hpp"
#include "apps/terminal/numbers.hpp"
#include "kernels/files/atomic_file.hpp"
#include "kernels/files/file_error.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <filesystem>
#include <memory>
#include <optional>
#include <vector>

namespace troupe {
namespace {

std::string journal_of(const Settings& settings, const RunFolder& folder) {
  namespace fs = std::filesystem;
  if (!settings.journal.empty()) {
    return fs::absolute(settings.journal).string();
  }
  if (settings.log_dir.empty())
    return folder.file("journal.db");
  auto path = fs::absolute(settings.log_dir) / "journal.db";
  for (int number = 2; fs::exists(path); ++number)
    path.replace_filename("journal-" + std::to_string(number) + ".db");
  return path.string();
}

/// A run never writes into the journal of another one, also where both begin
/// at one moment: it takes the name with an empty file and a lock beside it.
/// One that a run which was killed has left empty may be taken; one that nobody
/// came to write is given back.
class JournalName {
public:
  /// `named`: by the user, and not to be there.
  /// Errors: InputError where it is, or cannot be made.
  JournalName(std::string path, bool named) : path_(std::move(path)) {
    if (named)
      take();
  }
  ~JournalName() {
    std::error_code failure;
    if (std::filesystem::file_size(path_, failure) == 0 && !failure)
      std::filesystem::remove(path_, failure);
  }
  JournalName(const JournalName&) = delete;
  JournalName& operator=(const JournalName&) = delete;

  /// Empty: there is none.
  std::string lock_path() const { return lock_.held() ? lock_.path() : ""; }

private:
  void take() {
    try {
      lock_ = NameLock{path_};
    } catch (const FileError& failure) {
      fail_to_write("--journal " + path_, failure.code());
    }
    const Descriptor file{
      ::open(path_.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | O_NONBLOCK, 0666)};
    if (!file && errno != ENXIO) // a pipe that nobody reads
      fail_to_write("--journal " + path_, errno);
    struct stat about {};
    if (!lock_.held() || !file || ::fstat(file.get(), &about) != 0
        || !S_ISREG(about.st_mode) || about.st_size > 0)
      throw InputError("--journal " + path_
                       + ": is there already (`troupe events " + path_
                       + "` shows its run); remove it or name another file");
  }

  std::string path_;
  NameLock lock_;
};

/// Errors: InputError where it cannot be written whole.
void write_config(const std::string& path, const Settings& settings) {
  const auto text = to_toml(settings);
  write_atomically(path, {std::as_bytes(std::span{text})});
}

/// A folder that is named has them, or an authority's key to make them with.
/// Else they are made here, and in no file.
void prepare_certificates(const Settings& settings, const RunFolder& folder,
                          LaunchOptions& launch) {
  const auto source = certificate_source(settings);
  if (!source.path.empty()) {
    launch.credentials = make_credentials(source, supervisor_name);
    launch.certificates = [path = source.path](const MemberName&) {
      return path;
    };
    return;
  }
  auto authority = make_authority(held_clock(source));
  launch.credentials = make_member(authority, supervisor_name);
  launch.credentials.authority_key = authority.authority_key;
  launch.credentials.folder = "memory";
  const auto files = std::make_shared<MemberFiles>(std::move(authority),
                                                   folder.path());
  launch.certificates = [files](const MemberName& name) {
    return files->path(name);
  };
  launch.renewed = [files] { files->refresh(); };
  launch.revoked = [files](const MemberName& name, int64_t until) {
    files->revoked(name, until);
  };
}

using Ports = std::vector<std::unique_ptr<ReservedPort>>;

/// Roles are started there from here on. Returns where the coordinator is to
/// listen; none: it was stopped.
std::optional<std::string> take_hosts(RoleHosts& hosts, const RunOptions& run,
                                      LaunchOptions& launch) {
  const auto host = hosts.open(launch.credentials, run.events.stop,
                               run.events.note);
  if (!host)
    return {};
  launch.host_of = [&hosts](RoleId role) { return hosts.of(role); };
  launch.devices_left = [&hosts](RoleId gone) {
    return hosts.devices_left(gone);
  };
  launch.place = [&hosts](const Plan& plan) { hosts.place(plan); };
  launch.revoked = [&hosts, own = launch.revoked](const MemberName& name,
                                                  int64_t until) {
    hosts.revoked(name, until);
    if (own)
      own(name, until);
  };
  return to_string(Endpoint{*host, 0});
}

/// "worker:1: …" becomes "worker:1 (host2): …": a run's last line says where to
/// look.
std::string with_host(const std::string& line, RoleHosts& hosts) {
  for (const auto& [role, host] : hosts.places()) {
    const auto name = to_string(role);
    if (line.starts_with(name + ':') || line.starts_with(name + ' '))
      return name + " (" + host + ')' + line.substr(name.size());
  }
  return line;
}

/// Two coordinators, and three who keep the journal: each of them, and this
/// process, whose copy is the one at `journal`.
Ports add_standby(const std::string& where, const std::string& journal,
                  LaunchOptions& launch) {
  const auto host = parse_address(where).host;
  Ports ports;
  for (int i = 0; i < 5; ++i)
    ports.push_back(std::make_unique<ReservedPort>(host));
  const bool any = where.ends_with(":0");
  const std::array listen{any ? ports[0]->address() : where,
                          ports[1]->address()};
  launch.coordinators = listen[0] + ',' + listen[1];
  launch.voter = ports[2]->address();
  const auto voters = launch.voter + ',' + ports[3]->address() + ','
                      + ports[4]->address();
  const auto common = launch.coordinator_arguments;
  auto arguments = [&](size_t which) {
    auto out = common;
    const auto own = std::to_string(which + 1);
    out.insert(out.end(), {"--listen", listen[which], "--voters", voters,
                           "--voter", own, "--journal", journal + '.' + own});
    return out;
  };
  launch.coordinator_arguments = arguments(0);
  launch.standby_arguments = arguments(1);
  return ports;
}

} // namespace

RunResult launch_roles(const Settings& settings, const RunOptions& run,
                       RoleOutput& output, Interrupt* interrupt,
                       RoleHosts* hosts) {
  // From here on a signal is heard, so that the folder goes with the run.
  if (auto told = told_to_end(run.events))
    return *told;
  const ProgramImage image;
  RunFolder folder{RunFolder::Place::state};
  if (interrupt)
    interrupt->removes(folder.path());
  const auto config = folder.file("job.toml");
  auto coordinator = settings;
  coordinator.journal = journal_of(settings, folder);
  const JournalName journal_name{coordinator.journal,
                                 !settings.journal.empty()};
  if (interrupt && !journal_name.lock_path().empty())
    interrupt->removes(journal_name.lock_path());
  coordinator.standby = false;             // it has one, and is none
  coordinator.summary.clear();             // this process writes it
  coordinator.report.clear();              // the same
  coordinator.flight = run.flight;         // its page shows what is there
  coordinator.quiet = false;               // its lines are signs of life
  if (coordinator.job.histogram_every > 0) // which it takes from what is given
    coordinator.given.insert("histogram-every");
  write_config(config, coordinator);
  LaunchOptions launch;
  prepare_certificates(settings, folder, launch);
  folder.remember();
  auto listen = settings.listen;
  if (hosts) {
    if (!run.flight.empty())
      hosts->keep_flights_in(run.flight);
    const auto where = take_hosts(*hosts, run, launch);
    if (!where)
      return *told_to_end(run.events);
    listen = *where;
  }
  std::vector<std::unique_ptr<ReservedPort>> ports;
  launch.program = image.path();
  launch.coordinator_arguments = {"role",
                                  "coordinator",
                                  "--supervised",
                                  "--config",
                                  config,
                                  "--certificates",
                                  launch.certificates(coordinator_name)};
  if (!settings.standby)
    launch.coordinator_arguments.insert(launch.coordinator_arguments.end(),
                                        {"--listen", listen});
  if (settings.standby) {
    ports = add_standby(listen, coordinator.journal, launch);
    if (run.events.note)
      run.events.note("standby: both coordinators, and all who keep the "
                      "journal, are on this host: a process may die, not it");
  }
  if (settings.leads)
    launch.roles = {*settings.role};
  launch.journal = coordinator.journal;
  launch.processes = std::make_shared<ChildProcesses>(ChildProcesses::Options{
    image.descriptor(), getpid() == 1, [&folder] { folder.restore(); }});
  if (interrupt)
    interrupt->on_stop(
      [processes = std::weak_ptr{launch.processes}, hosts](bool stops) {
        const auto held = processes.lock();
        if (!held) // the run is over
          return;
        held->pause(stops);
        if (hosts)
          hosts->pause(stops);
      });
  launch.on_line = [&output](const std::string& role, const std::string& line) {
    output.add(role, line);
  };
  auto result = run_processes(run, launch);
  if (hosts) {
    result.line = with_host(result.line, *hosts);
    if (!run.flight.empty())
      result.all_recorded = hosts->bring_flights();
    hosts->end();
  }
  return result;
}

} // namespace troupe
