#pragma once

#include "actors/launch/host_processes.hpp"
#include "apps/launch/agent_link.hpp"
#include "strategies/host_pool.hpp"

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace troupe {

/// The processes of roles on hosts that come and go: each role is started on
/// the host that the pool has for it, and waits where there is none. Thread-
/// safe.
class ElasticHosts : public HostProcesses,
                     public std::enable_shared_from_this<ElasticHosts> {
public:
  using Links = std::vector<std::shared_ptr<AgentLink>>; ///< by host

  /// `max_workers`: those that the job takes.
  ElasticHosts(HostPool pool, uint32_t max_workers)
    : pool_(std::move(pool)), max_workers_(max_workers) {}

  void use(Links links);
  void came(size_t host);
  void went(size_t host);
  /// A copy of how it stands.
  HostPool pool() const;
  /// Gives roles their hosts before anybody starts them, in this order.
  void place(const std::vector<RoleId>& roles);
  /// HOST:PORT where roles were told that it is; empty: none was started yet.
  std::string coordinator() const;
  /// A change of the job that fills slots which nobody has: workers that left
  /// with their host are not started again. Nobody comes for those that left
  /// alone, as a user told them to. Empty: none.
  std::string wish();

  uint64_t start(Order order) override;
  void kill(uint64_t number) override;
  void forget(RoleId role) override;
  /// Nothing is: roles that keep memory are bound to their hosts.
  void tell_memory(RoleId,
                   std::function<void(const std::string& at)> tell) override {
    tell({});
  }

private:
  struct Started {
    Order order;
    std::shared_ptr<AgentLink> link; ///< null: it waits
    uint64_t number = 0;             ///< of that one's; 0: not known yet
    bool killed = false;             ///< before that was known
  };

  void start_waiting();
  void start_there(uint64_t number, bool has_waited);
  void ended(uint64_t number, size_t host, const End& end);

  mutable std::mutex mutex_;
  HostPool pool_;
  const uint32_t max_workers_;
  Links links_;
  uint64_t next_ = 1;
  std::map<uint64_t, Started> started_;
  uint32_t removed_ = 0; ///< workers that left hosts which stayed
  std::chrono::steady_clock::time_point next_wish_;
};

} // namespace troupe
