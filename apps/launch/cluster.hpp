#pragma once

#include "apps/launch/agent_link.hpp"
#include "apps/launch/elastic_hosts.hpp"
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
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace troupe {

/// The hosts of `troupe launch`, each by way of an agent that the system's ssh
/// starts there; "localhost" is this machine, without ssh. With --hosts MIN:MAX
/// it begins with those that are there, and others come and go.
class Cluster : public RoleHosts {
public:
  /// Decides which role goes where; touches no host.
  /// `in_lock_step`: Placement::links(); `min_workers`: as RunOptions. Errors:
  /// InputError where hosts cannot be read, UsageError where the job does not
  /// fit on them.
  Cluster(const LaunchFlags& flags, Plan plan, bool in_lock_step,
          uint32_t min_workers);
  ~Cluster() override;

  /// open() makes sure that all hosts can read what is in this folder, which it
  /// makes.
  void let_all_read(const std::string& folder) { shared_ = folder; }

  /// What would be started where, a command a line.
  std::string describe() const;

  std::optional<std::string>
  open(const Credentials& authority, const std::function<std::string()>& stop,
       const std::function<void(const std::string& line)>& note) override;
  std::shared_ptr<HostProcesses> of(RoleId role) override;
  uint32_t devices_left(RoleId gone) override;
  void place(const Plan& plan) override;
  std::map<RoleId, std::string> places() override;
  std::string wish() override;
  std::vector<std::string> take_notes() override;
  void keep_flights_in(const std::string& folder) override {
    flights_ = folder;
  }
  bool bring_flights() override;
  void pause(bool stands) override;
  void revoked(const MemberName& name, int64_t until) override;
  void end() override;

private:
  using Names = std::vector<std::string>;

  /// How a host that comes later, or again, is taken in.
  struct Seek {
    /// trying: it tries the ways to others; tried: they try those to it.
    enum class State { away, connecting, opening, trying, tried, in_use };
    State state = State::away;
    std::chrono::steady_clock::time_point next{}; ///< to connect to it again
    std::string why{};                            ///< said of it last
    std::chrono::seconds rest{0}; ///< after ways that were closed; 0: none were
  };

  bool is_here(size_t host) const;
  bool takes_part(size_t host) const;
  std::set<std::pair<size_t, size_t>> pairs() const;
  std::string describe_elastic() const;
  bool meet_some();
  void begin_elastic();
  void look_for_hosts();
  void look_for(size_t host);
  Names doors_of_others() const;
  Names place_of_coordinator(size_t host) const;
  bool others_try() const;
  void let_others_try(size_t host);
  void look_at_others(size_t host);
  void refuse(size_t host, const std::string& why);
  void say(std::string line);
  Names command_on(size_t host) const;
  std::shared_ptr<const std::string> program();
  void make_links();
  void remove_brought() const;
  bool meet();
  void tell();
  void check_clock(const AgentLink& link);
  std::string settle_addresses();
  bool open_doors();
  std::map<std::string, std::string>
  places_for(size_t host, const std::string& coordinator) const;
  Names closed_ways(const std::string& coordinator, bool& all) const;
  bool try_ways(const std::string& coordinator);
  bool try_folder();
  bool wait_for(const std::function<bool()>& condition,
                std::chrono::milliseconds deadline);
  void pulse();

  LaunchFlags flags_;
  Plan plan_;
  bool in_lock_step_;
  std::map<std::string, std::string> addresses_; ///< of the hosts' file
  Placement placement_;
  uint32_t devices_ = 0;        ///< that a split model may be laid out on
  std::vector<HostSlots> left_; ///< of hosts, for another plan
  std::string shared_; ///< folder that all hosts are to read; empty: none
  ProgramImage image_;
  ProgramFile file_;
  std::function<std::string()> stop_;
  std::function<void(const std::string&)> note_; ///< open()'s; may be null
  std::string flights_;     ///< folder; empty: nobody asks for them
  std::set<size_t> silent_; ///< hosts of which open() has said that
  std::shared_ptr<MemberSigner> signer_;
  std::mutex mutex_;
  std::shared_ptr<const std::string> bytes_; ///< of the program, once asked for
  std::condition_variable changed_;
  bool over_ = false;
  bool seeks_hosts_ = false; ///< those of the beginning are there
  Names notes_;
  std::shared_ptr<ElasticHosts> elastic_; ///< null: hosts are those named
  std::vector<Seek> seeks_;               ///< by host; of the pulse's thread
  std::string coordinator_;               ///< where hosts are to reach it
  bool any_way_ = false; ///< each host reaches this machine by another
  std::vector<std::shared_ptr<AgentLink>> links_; ///< by host
  Names doors_; ///< HOST:PORT that a host has opened for a while, by host
  std::thread pulse_;
  std::unique_ptr<ChildProcesses> processes_; ///< its callbacks use the links
};

} // namespace troupe
