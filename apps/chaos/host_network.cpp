#include "apps/chaos/host_network.hpp"

#include "kernels/base/error.hpp"

#include <fcntl.h>
#include <sched.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <thread>

namespace troupe {
namespace {

constexpr const char* needed =
  "host-kill, host-cut and host-slow need network namespaces: ";
constexpr const char* enter = "/usr/bin/nsenter";

[[noreturn]] void refuse_hosts(const std::string& why) {
  throw InputError(needed + why);
}

/// A namespace is of a thread: this one is over before anybody looks.
template <class Work>
void in_thread_of_its_own(Work work) {
  std::thread{std::move(work)}.join();
}

Descriptor make_namespace() {
  Descriptor made;
  int why = 0;
  in_thread_of_its_own([&] {
    if (::unshare(CLONE_NEWNET) == 0)
      made.reset(::open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC));
    why = made ? 0 : errno;
  });
  if (!made)
    refuse_hosts(std::string{std::strerror(why)}
                 + "; be root, or allow user namespaces");
  return made;
}

void write_map(const char* path, const std::string& text) {
  std::ofstream{path} << text;
}

void become_root_of_a_namespace() {
  const auto user = std::to_string(::geteuid());
  const auto group = std::to_string(::getegid());
  if (::unshare(CLONE_NEWUSER) != 0)
    refuse_hosts(std::string{std::strerror(errno)}
                 + "; be root, or allow user namespaces");
  write_map("/proc/self/setgroups", "deny");
  write_map("/proc/self/uid_map", "0 " + user + " 1");
  write_map("/proc/self/gid_map", "0 " + group + " 1");
}

std::string number(size_t host) {
  return std::to_string(host);
}

/// Returns its exit status; 127 where there is no such program.
int run_words(const std::vector<std::string>& words) {
  std::vector<char*> arguments;
  for (const auto& word : words)
    arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  posix_spawn_file_actions_t quiet;
  posix_spawn_file_actions_init(&quiet);
  for (int output : {STDOUT_FILENO, STDERR_FILENO})
    posix_spawn_file_actions_addopen(&quiet, output, "/dev/null", O_WRONLY, 0);
  pid_t pid = 0;
  const int failure = posix_spawnp(&pid, arguments[0], &quiet, nullptr,
                                   arguments.data(), environ);
  posix_spawn_file_actions_destroy(&quiet);
  int status = 0;
  if (failure != 0 || ::waitpid(pid, &status, 0) != pid || !WIFEXITED(status))
    return 127;
  return WEXITSTATUS(status);
}

} // namespace

HostNetwork::HostNetwork(size_t hosts) {
  if (::access(enter, X_OK) != 0)
    refuse_hosts(std::string{enter} + " is missing (package util-linux)");
  if (::geteuid() != 0)
    become_root_of_a_namespace();
  switch_ = make_namespace();
  command(switch_, {"ip", "link", "add", "switch", "type", "bridge"});
  command(switch_, {"ip", "link", "set", "switch", "up"});
  for (size_t host = 0; host < hosts; ++host)
    add(host);
}

std::string HostNetwork::address(size_t host) const {
  return "10.77.0." + number(host + 1);
}

std::vector<std::string> HostNetwork::on(size_t host) const {
  return {enter,
          "--net=/proc/" + std::to_string(::getpid()) + "/fd/"
            + std::to_string(hosts_.at(host).get()),
          "--"};
}

void HostNetwork::add(size_t host) {
  auto made = make_namespace();
  const auto port = "port" + number(host);
  command(switch_, {"ip", "link", "add", port, "type", "veth", "peer", "name",
                    "eth0", "netns",
                    "/proc/" + std::to_string(::getpid()) + "/fd/"
                      + std::to_string(made.get())});
  command(switch_, {"ip", "link", "set", port, "master", "switch", "up"});
  command(made, {"ip", "address", "add", address(host) + "/24", "dev", "eth0"});
  for (const auto* device : {"lo", "eth0"})
    command(made, {"ip", "link", "set", device, "up"});
  hosts_.push_back(std::move(made));
}

void HostNetwork::command(const Descriptor& where, const Words& words) const {
  int status = 127;
  in_thread_of_its_own([&] {
    if (::setns(where.get(), CLONE_NEWNET) == 0)
      status = run_words(words);
  });
  if (status == 0)
    return;
  std::string said;
  for (const auto& word : words)
    said += (said.empty() ? "" : " ") + word;
  refuse_hosts(status == 127 ? words.front()
                                 + " is missing (package iproute2), or may "
                                   "not be used here"
                             : "'" + said + "' failed");
}

void HostNetwork::block(size_t from, size_t to) {
  command(hosts_.at(from),
          {"ip", "route", "add", "blackhole", address(to) + "/32"});
}

void HostNetwork::unblock(size_t from, size_t to) {
  command(hosts_.at(from),
          {"ip", "route", "del", "blackhole", address(to) + "/32"});
}

void HostNetwork::unplug(size_t host) {
  command(switch_, {"ip", "link", "set", "port" + number(host), "nomaster"});
}

void HostNetwork::plug(size_t host) {
  command(switch_,
          {"ip", "link", "set", "port" + number(host), "master", "switch"});
}

void HostNetwork::slow(size_t host) {
  const auto slowed = [&](const Descriptor& where, const std::string& device,
                          const Words& how) {
    Words words{"tc", "qdisc", "add", "dev", device, "root"};
    words.insert(words.end(), how.begin(), how.end());
    command(where, words);
  };
  const auto both = [&](const Words& how) {
    slowed(switch_, "port" + number(host), how);
    slowed(hosts_.at(host), "eth0", how);
  };
  try {
    both({"netem", "delay", "20ms", "rate", "50mbit"});
  } catch (const InputError&) { // a kernel without netem
    both({"tbf", "rate", "50mbit", "burst", "64kb", "latency", "400ms"});
  }
}

void HostNetwork::hurry(size_t host) {
  command(switch_,
          {"tc", "qdisc", "del", "dev", "port" + number(host), "root"});
  command(hosts_.at(host), {"tc", "qdisc", "del", "dev", "eth0", "root"});
}

} // namespace troupe
