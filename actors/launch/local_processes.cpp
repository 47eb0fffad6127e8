#include "actors/launch/local_processes.hpp"

#include "actors/process/own_process.hpp"
#include "actors/process/stop_status.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <csignal>
#include <utility>

namespace troupe {

LocalProcesses::LocalProcesses(Options options)
  : options_(std::move(options)) {}

/// -1: it keeps none, or there is none to be had.
int LocalProcesses::memory_of(const Order& order) {
  if (!keeps_slices(order.role.kind) && !order.paired)
    return -1;
  const std::lock_guard guard{mutex_};
  auto& memory = memory_[order.role];
  if (!memory)
    memory.reset(memfd_create(to_string(order.name()).c_str(),
                              MFD_CLOEXEC | MFD_ALLOW_SEALING));
  return memory.get();
}

uint64_t LocalProcesses::start(Order order) {
  const auto name = order.name();
  std::vector<std::string> arguments{options_.program, "role",
                                     to_string(name),  "--supervised",
                                     "--coordinator",  order.coordinator};
  arguments.insert(arguments.end(), order.arguments.begin(),
                   order.arguments.end());
  if (options_.certificates)
    arguments.insert(arguments.end(),
                     {"--certificates", options_.certificates(name)});
  const int memory = memory_of(order);
  if (memory >= 0)
    arguments.insert(arguments.end(), {"--state-fd", std::to_string(memory)});
  return static_cast<uint64_t>(options_.processes->start(
    std::move(arguments), memory, std::move(order.on_line),
    [deaths = options_.deaths,
     on_end = std::move(order.on_end)](const ChildProcesses::Exit& exit) {
      auto who = own_process();
      who.process = static_cast<uint32_t>(exit.pid);
      on_end({deaths->explain(exit),
              exit.status == 0 || is_stop_status(exit.status), who});
    }));
}

void LocalProcesses::kill(uint64_t number) {
  options_.processes->signal(static_cast<int>(number), SIGKILL);
}

void LocalProcesses::forget(RoleId role) {
  const std::lock_guard guard{mutex_};
  memory_.erase(role);
}

void LocalProcesses::tell_memory(
  RoleId role, std::function<void(const std::string& at)> tell) {
  tell(memory_at(role));
}

std::string LocalProcesses::memory_at(RoleId role) {
  const std::lock_guard guard{mutex_};
  const auto kept = memory_.find(role);
  return kept == memory_.end() || !kept->second
           ? std::string{}
           : "/proc/" + std::to_string(getpid()) + "/fd/"
               + std::to_string(kept->second.get());
}

} // namespace troupe
