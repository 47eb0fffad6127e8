#pragma once

#include "apps/launch/agent_link.hpp"
#include "apps/launch/ssh_words.hpp"
#include "apps/process/program_image.hpp"
#include "apps/process/role_hosts.hpp"
#include "apps/settings/settings.hpp"
#include "strategies/placement.hpp"

#include <chrono>
#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace troupe {

/// The hosts of `troupe launch`, each by way of an agent that the system's ssh
/// starts there; "localhost" is this machine, without ssh.
class Cluster : public RoleHosts {
public:
  /// Decides which role goes where; touches no host.
  /// Errors: InputError where hosts cannot be read, UsageError where the job
  /// does not fit on them.
  Cluster(const LaunchFlags& flags, Plan plan);
  ~Cluster() override;

  /// What would be started where, a command a line.
  std::string describe() const;

  std::optional<std::string>
  open(const Credentials& authority, const std::function<std::string()>& stop,
       const std::function<void(const std::string& line)>& note) override;
  std::shared_ptr<HostProcesses> of(RoleId role) override;
  void pause(bool stands) override;
  void revoked(const MemberName& name, int64_t until) override;
  void end() override;

private:
  using Names = std::vector<std::string>;

  bool is_here(size_t host) const;
  Names command_on(size_t host) const;
  std::shared_ptr<const std::string> program();
  void make_links();
  bool meet();
  void check_clocks() const;
  std::string settle_addresses();
  bool open_doors();
  std::map<std::string, std::string>
  places_for(size_t host, const std::string& coordinator) const;
  Names closed_ways(const std::string& coordinator, bool& all) const;
  bool try_ways(const std::string& coordinator);
  bool wait_for(const std::function<bool()>& condition,
                std::chrono::milliseconds deadline);
  void pulse();

  LaunchFlags flags_;
  Plan plan_;
  std::map<std::string, std::string> addresses_; ///< of the hosts' file
  Placement placement_;
  ProgramImage image_;
  ProgramFile file_;
  std::function<std::string()> stop_;
  std::shared_ptr<MemberSigner> signer_;
  std::mutex mutex_;
  std::shared_ptr<const std::string> bytes_; ///< of the program, once asked for
  std::condition_variable changed_;
  bool over_ = false;
  std::vector<std::shared_ptr<AgentLink>> links_; ///< by host
  Names doors_; ///< HOST:PORT that a host has opened for a while, by host
  std::thread pulse_;
  std::unique_ptr<ChildProcesses> processes_; ///< its callbacks use the links
};

} // namespace troupe
