#include "actors/process/role_death.hpp"

#include "actors/process/stop_status.hpp"
#include "kernels/base/control_group.hpp"

#include <algorithm>
#include <csignal>

namespace troupe {
namespace {

/// Signals that a process gets for what it did itself.
bool own_fault(int signal) {
  for (int fault : {SIGSEGV, SIGABRT, SIGBUS, SIGILL, SIGFPE, SIGSYS})
    if (signal == fault)
      return true;
  return false;
}

/// The line that a process gave when it got no memory, if it gave one.
const std::string* memory_line(const ChildProcesses::Exit& exit) {
  const auto found =
    std::ranges::find_if(exit.last_lines, [](const std::string& line) {
      return line.find("out of memory") != std::string::npos
             || line.find("std::bad_alloc") != std::string::npos;
    });
  return found == exit.last_lines.end() ? nullptr : &*found;
}

} // namespace

RoleDeaths::RoleDeaths(std::string root)
  : root_(std::move(root)), kills_(count_memory_kills(root_)) {}

bool RoleDeaths::ended_for_memory(const ChildProcesses::Exit& exit) {
  if (exit.signal != SIGKILL)
    return false;
  const std::lock_guard guard{mutex_};
  const auto kills = count_memory_kills(root_);
  if (!kills || !kills_ || *kills <= *kills_)
    return false;
  ++*kills_; // the kernel may have ended several at once
  return true;
}

RoleDeath RoleDeaths::explain(const ChildProcesses::Exit& exit) {
  RoleDeath death;
  death.life.ms = exit.lived_ms;
  if (ended_for_memory(exit)) {
    const auto limit = read_control_group(root_).memory_bytes;
    death.how = "ended by the kernel: memory, "
                + (limit > 0 ? "limit " + in_units(limit)
                             : std::string{"the machine has no more"});
    death.life.by_itself = death.life.memory = true;
    return death;
  }
  death.how = exit.describe();
  death.life.by_itself = exit.signal == 0 || own_fault(exit.signal);
  const auto* memory =
    death.life.by_itself && exit.status != 0 ? memory_line(exit) : nullptr;
  death.life.memory = memory != nullptr;
  death.life.input = exit.signal == 0 && exit.status == bad_input_status;
  if (memory != nullptr)
    death.how += ": " + *memory;
  else if (exit.signal == 0 && !exit.last_lines.empty())
    death.how += ": " + exit.last_lines.back();
  return death;
}

} // namespace troupe
