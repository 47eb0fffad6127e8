#include "apps/process/role_processes.hpp"

#include "kernels/base/error.hpp"
#include "kernels/base/rest_of.hpp"

#include <poll.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <utility>

namespace troupe {
namespace {

namespace fs = std::filesystem;

std::string text_of(const fs::path& path) {
  std::ifstream file{path, std::ios::binary};
  return rest_of(file);
}

/// State and parent of a process, from behind its name in /proc/PID/stat.
struct Status {
  char state = 0;
  int parent = 0;
};

Status status_of(int pid) {
  const auto text = text_of("/proc/" + std::to_string(pid) + "/stat");
  Status status;
  if (const auto name_end = text.rfind(')'); name_end != std::string::npos)
    std::istringstream{text.substr(name_end + 1)} >> status.state
      >> status.parent;
  return status;
}

using Words = std::vector<std::string>;

Words command_of(int pid) {
  std::istringstream in{text_of("/proc/" + std::to_string(pid) + "/cmdline")};
  Words words;
  for (std::string word; std::getline(in, word, '\0');)
    words.push_back(word);
  return words;
}

std::string value_of(const Words& command, const std::string& flag) {
  const auto at = std::ranges::find(command, flag);
  return at == command.end() || at + 1 == command.end() ? std::string{}
                                                        : *(at + 1);
}

/// The role that a command line names, with its voter where there are several
/// coordinators; empty: it is none of a role.
std::string role_of(const Words& command) {
  if (command.size() < 3 || command[1] != "role")
    return {};
  const auto voter = value_of(command, "--voter");
  return command[2] + (voter.empty() ? "" : ", voter " + voter);
}

} // namespace

HeldProcess::HeldProcess(int pid)
  : pid_(pid), descriptor_(static_cast<int>(syscall(SYS_pidfd_open, pid, 0))) {
  if (descriptor_ < 0)
    throw InputError("process " + std::to_string(pid)
                     + " cannot be held: " + std::strerror(errno));
}

HeldProcess::~HeldProcess() {
  if (descriptor_ >= 0)
    close(descriptor_);
}

HeldProcess::HeldProcess(HeldProcess&& other) noexcept
  : pid_(other.pid_), descriptor_(std::exchange(other.descriptor_, -1)) {}

bool HeldProcess::signal(int number) const {
  return syscall(SYS_pidfd_send_signal, descriptor_, number, nullptr, 0) == 0;
}

bool HeldProcess::ended(int wait_ms) const {
  pollfd polled{descriptor_, POLLIN, 0};
  return poll(&polled, 1, wait_ms) > 0;
}

bool HeldProcess::stopped() const {
  return status_of(pid_).state == 'T';
}

void RoleProcesses::look() {
  role_pid_.clear();
  for (const auto& entry : fs::directory_iterator{"/proc"}) {
    const auto name = entry.path().filename().string();
    if (!std::ranges::all_of(name, [](unsigned char c) {
          return std::isdigit(c) != 0;
        }))
      continue;
    const auto pid = std::stoi(name);
    if (status_of(pid).parent != launcher_)
      continue;
    if (!seen_.contains(pid))
      try {
        seen_.emplace(pid, HeldProcess{pid});
      } catch (const InputError&) {
        continue; // it has ended meanwhile
      }
    // Read once it is held, so that it is this process's.
    const auto role = role_of(command_of(pid));
    if (role.empty() || seen_.at(pid).ended())
      continue;
    role_pid_[role] = pid;
    names_[pid] = role;
  }
}

const HeldProcess* RoleProcesses::playing(const std::string& role) const {
  const auto found = role_pid_.find(role);
  return found == role_pid_.end() ? nullptr : &seen_.at(found->second);
}

const HeldProcess*
RoleProcesses::listening_at(const std::string& address) const {
  for (const auto& [role, pid] : role_pid_)
    if (value_of(command_of(pid), "--listen") == address)
      return &seen_.at(pid);
  return nullptr;
}

void RoleProcesses::signal_all(int number) const {
  for (const auto& [pid, process] : seen_)
    process.signal(number);
}

RoleProcesses::Holdings RoleProcesses::count() const {
  Holdings out;
  std::set<std::string> files;
  const auto add = [&](int pid) {
    ++out.processes;
    std::error_code gone;
    for (fs::directory_iterator
           entry{"/proc/" + std::to_string(pid) + "/fd", gone},
         end;
         !gone && entry != end; entry.increment(gone)) {
      struct stat file {};
      std::error_code closed;
      const auto target = fs::read_symlink(entry->path(), closed).string();
      ++(target.starts_with("socket:") ? out.sockets : out.descriptors);
      if (target.starts_with("/memfd:")
          && stat(entry->path().c_str(), &file) == 0)
        files.insert(std::to_string(file.st_ino));
    }
  };
  add(launcher_);
  for (const auto& [role, pid] : role_pid_)
    add(pid);
  out.memory_files = files.size();
  return out;
}

std::vector<std::string> RoleProcesses::left(int wait_ms) const {
  using Clock = std::chrono::steady_clock;
  const auto deadline = Clock::now() + std::chrono::milliseconds{wait_ms};
  std::vector<std::string> out;
  for (const auto& [pid, process] : seen_) {
    const auto rest = std::chrono::duration_cast<std::chrono::milliseconds>(
      deadline - Clock::now());
    if (process.ended(static_cast<int>(std::max<int64_t>(0, rest.count()))))
      continue;
    const auto name = names_.find(pid);
    out.push_back((name == names_.end() ? "process" : name->second) + " ("
                  + std::to_string(pid) + ")");
  }
  return out;
}

} // namespace troupe
