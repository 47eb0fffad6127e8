#include "apps/launch/elastic_hosts.hpp"

#include <algorithm>
#include <utility>

namespace troupe {
namespace {

/// A change takes its time: it is not wished again before.
constexpr std::chrono::seconds wish_period{15};

} // namespace

void ElasticHosts::use(Links links) {
  const std::lock_guard guard{mutex_};
  links_ = std::move(links);
}

HostPool ElasticHosts::pool() const {
  const std::lock_guard guard{mutex_};
  return pool_;
}

void ElasticHosts::place(const std::vector<RoleId>& roles) {
  const std::lock_guard guard{mutex_};
  for (auto role : roles)
    pool_.place(role);
}

void ElasticHosts::came(size_t host) {
  {
    const std::lock_guard guard{mutex_};
    pool_.came(host);
  }
  start_waiting();
}

void ElasticHosts::went(size_t host) {
  {
    const std::lock_guard guard{mutex_};
    pool_.went(host);
  }
  start_waiting(); // one that was spare may take roles
}

std::string ElasticHosts::coordinator() const {
  const std::lock_guard guard{mutex_};
  if (started_.empty())
    return {};
  const auto& all = started_.begin()->second.order.coordinator;
  return all.substr(0, all.find(','));
}

std::string ElasticHosts::wish() {
  const auto now = std::chrono::steady_clock::now();
  const std::lock_guard guard{mutex_};
  if (now < next_wish_ || pool_.workers() >= max_workers_)
    return {};
  const auto missing = max_workers_ - pool_.workers();
  const auto count = std::min(pool_.free_slots(),
                              missing - std::min(missing, removed_));
  if (count == 0)
    return {};
  next_wish_ = now + wish_period;
  return "workers add " + std::to_string(count);
}

uint64_t ElasticHosts::start(Order order) {
  uint64_t number = 0;
  {
    const std::lock_guard guard{mutex_};
    number = next_++;
    started_[number].order = std::move(order);
  }
  start_there(number, false);
  return number;
}

void ElasticHosts::start_waiting() {
  std::vector<uint64_t> waiting;
  {
    const std::lock_guard guard{mutex_};
    for (const auto& [number, one] : started_)
      if (!one.link)
        waiting.push_back(number);
  }
  for (auto number : waiting)
    start_there(number, true);
}

/// A start that fails is said to who asked for it, or is its end.
void ElasticHosts::start_there(uint64_t number, bool has_waited) {
  std::unique_lock guard{mutex_};
  const auto found = started_.find(number);
  if (found == started_.end() || found->second.link)
    return;
  const auto host = pool_.place(found->second.order.role);
  if (!host)
    return;
  auto& one = found->second;
  const auto link = one.link = links_.at(*host);
  auto order = one.order;
  order.on_end = [own = weak_from_this(), number,
                  where = *host](const End& end) {
    if (const auto hosts = own.lock())
      hosts->ended(number, where, end);
  };
  guard.unlock();
  uint64_t there = 0;
  try {
    there = link->start(std::move(order));
  } catch (const std::exception& failure) {
    guard.lock();
    auto lost = started_.extract(number);
    guard.unlock();
    if (!has_waited)
      throw;
    End end;
    end.death.how = failure.what();
    end.death.life.ms = 0;
    end.death.life.by_itself = true;
    if (lost && lost.mapped().order.on_end)
      lost.mapped().order.on_end(end);
    return;
  }
  guard.lock();
  const auto again = started_.find(number); // it may have ended already
  if (again == started_.end())
    return;
  again->second.number = there;
  const bool killed = again->second.killed;
  guard.unlock();
  if (killed)
    link->kill(there);
}

void ElasticHosts::ended(uint64_t number, size_t host, const End& end) {
  std::unique_lock guard{mutex_};
  auto one = started_.extract(number);
  if (!one)
    return;
  if (!links_.at(host)->is_here())
    pool_.went(host);
  guard.unlock();
  if (one.mapped().order.on_end)
    one.mapped().order.on_end(end);
}

void ElasticHosts::kill(uint64_t number) {
  std::unique_lock guard{mutex_};
  const auto found = started_.find(number);
  if (found == started_.end())
    return;
  auto& one = found->second;
  if (one.link) {
    const auto link = one.link;
    const auto there = one.number;
    one.killed = there == 0;
    guard.unlock();
    if (there != 0)
      link->kill(there);
    return;
  }
  const auto on_end = std::move(one.order.on_end);
  started_.erase(found);
  guard.unlock();
  End end;
  end.death.how = "ended while it waited for a host";
  end.death.life.beside = true; // waiting spends no restart
  if (on_end)
    on_end(end);
}

void ElasticHosts::forget(RoleId role) {
  std::shared_ptr<AgentLink> link;
  {
    const std::lock_guard guard{mutex_};
    if (const auto host = pool_.host_of(role)) {
      link = links_.at(*host);
      if (role.kind == RoleKind::worker && link->stays())
        ++removed_;
    }
    pool_.forget(role);
  }
  if (link)
    link->forget(role);
  start_waiting();
}

} // namespace troupe
