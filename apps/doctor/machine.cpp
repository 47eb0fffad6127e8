#include "apps/doctor/machine.hpp"

#include "actors/certificates/certificate.hpp"
#include "actors/certificates/credentials.hpp"
#include "actors/control/reach.hpp"
#include "actors/sockets/addresses.hpp"
#include "actors/wire/version.hpp"
#include "apps/doctor/device_trial.hpp"
#include "apps/process/process_limits.hpp"
#include "apps/settings/devices.hpp"
#include "kernels/base/control_group.hpp"
#include "kernels/base/error.hpp"
#include "kernels/base/rest_of.hpp"
#include "kernels/cuda/nccl_reducer.hpp"
#include "kernels/engine/replica.hpp"
#include "kernels/files/input_file.hpp"
#include "kernels/files/output_trial.hpp"
#include "kernels/files/shown_text.hpp"

#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/timex.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <set>
#include <thread>

namespace troupe {
namespace {

namespace fs = std::filesystem;
using Kind = Finding::Kind;

/// More roles than a host has of anything else.
constexpr rlim_t useful_descriptors = 4096;
constexpr uint64_t scarce_memory = uint64_t{512} << 20;
constexpr std::chrono::milliseconds patience{3000};

std::string first_line(const std::string& path) {
  std::ifstream file{path};
  std::string line;
  std::getline(file, line);
  return line;
}

/// A value of a file of lines "name: value", as /proc has them.
std::string field(const std::string& path, const std::string& name) {
  std::ifstream file{path};
  for (std::string line; std::getline(file, line);)
    if (line.starts_with(name))
      if (const auto at = line.find_first_not_of(" \t:", name.size());
          at != std::string::npos)
        return line.substr(at);
  return {};
}

Finding program() {
  return {Kind::good, "program",
          std::string{version} + ", " + library_versions()
            + "; all of a job's roles need the same version",
          ""};
}

Finding processor() {
  const auto isa = select_isa("auto");
  cpu_set_t set;
  CPU_ZERO(&set);
  const auto allowed = sched_getaffinity(0, sizeof set, &set) == 0
                         ? static_cast<uint32_t>(CPU_COUNT(&set))
                         : std::thread::hardware_concurrency();
  const auto group = read_control_group();
  const auto usable = processors_within(allowed, group);
  auto name = field("/proc/cpuinfo", "model name");
  Finding out{Kind::good, "processor",
              (name.empty() ? "unknown model" : name) + ", "
                + std::to_string(usable) + " cores for this process, isa " + isa
                + ", numeric class " + numeric_class({}, Precision::float32),
              ""};
  if (group.processors > 0 && group.processors < allowed)
    out = {Kind::note, out.what,
           out.found + "; the control group allows the time of "
             + std::to_string(group.processors).substr(0, 4) + " of "
             + std::to_string(allowed),
           "give the container more, if that is not meant"};
  return out;
}

Finding memory() {
  const auto text = field("/proc/meminfo", "MemAvailable");
  auto available = std::strtoull(text.c_str(), nullptr, 10) * 1024;
  const auto group = read_control_group();
  std::string found = in_units(available) + " available";
  if (group.memory_bytes > 0) {
    found += ", the control group allows " + in_units(group.memory_bytes);
    available = std::min<uint64_t>(available, group.memory_bytes);
  }
  rlimit limit{};
  if (getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY) {
    found += ", ulimit -v " + in_units(limit.rlim_cur);
    available = std::min<uint64_t>(available, limit.rlim_cur);
  }
  if (available < scarce_memory)
    return {Kind::wrong, "memory", found,
            "troupe plan tells what a job needs; stop what else runs, or raise "
            "the limit"};
  return {Kind::good, "memory", found, ""};
}

Finding descriptors() {
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  const auto found = "ulimit -n " + std::to_string(limit.rlim_cur) + ", up to "
                     + std::to_string(limit.rlim_max);
  if (limit.rlim_max < useful_descriptors)
    return {Kind::note, "open files", found,
            "enough for about " + std::to_string(limit.rlim_max / 8)
              + " roles; more need a higher hard limit (limits.conf, "
                "LimitNOFILE=)"};
  return {Kind::good, "open files", found, ""};
}

Finding memory_files() {
  const int made = memfd_create("troupe-doctor", MFD_CLOEXEC);
  if (made < 0)
    return {Kind::wrong, "shared memory",
            std::string{"memfd_create: "} + std::strerror(errno),
            "without it shards' states die with their processes: let the "
            "sandbox allow memfd_create"};
  ::close(made);
  return {Kind::good, "shared memory", "files in memory can be made", ""};
}

Finding temporary_folder() {
  const auto* named = std::getenv("TMPDIR");
  const std::string folder = named == nullptr || *named == '\0' ? "/tmp"
                                                                : named;
  try {
    try_output_folder(folder, uint64_t{1} << 20);
  } catch (const std::exception& failure) {
    return {Kind::wrong, "temporary files", failure.what(),
            "set TMPDIR to a folder that can be written"};
  }
  std::error_code ignored;
  const auto space = std::filesystem::space(folder, ignored);
  return {Kind::good, "temporary files",
          folder + ", " + in_units(space.available) + " free", ""};
}

Finding clock() {
  timex state{};
  const auto status = ::adjtimex(&state);
  if (status < 0)
    return {Kind::note, "clock", "its state cannot be read here", ""};
  if (status == TIME_ERROR || (state.status & STA_UNSYNC) != 0)
    return {Kind::note, "clock", "no time service keeps it",
            "certificates are judged by it, and hosts' events are put in order "
            "by it: chrony or systemd-timesyncd keep it"};
  return {Kind::good, "clock",
          "kept by a time service, off by at most "
            + std::to_string(state.maxerror / 1000) + " ms",
          ""};
}

Finding huge_pages() {
  const auto modes = first_line("/sys/kernel/mm/transparent_hugepage/enabled");
  const auto begin = modes.find('[');
  if (begin == std::string::npos)
    return {Kind::note, "huge pages", "not known here", ""};
  const auto mode = modes.substr(begin + 1, modes.find(']') - begin - 1);
  if (mode == "never")
    return {Kind::note, "huge pages", "transparent ones are off",
            "large models are some percent slower: echo madvise > "
            "/sys/kernel/mm/transparent_hugepage/enabled"};
  return {Kind::good, "huge pages", mode, ""};
}

/// Addresses of this machine beyond loopback, by interface.
std::vector<Finding> interfaces() {
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0)
    return {{Kind::note, "network", std::strerror(errno), ""}};
  const std::unique_ptr<ifaddrs, decltype(&freeifaddrs)> guard{list,
                                                               freeifaddrs};
  std::vector<Finding> out;
  std::string down;
  std::set<std::string> up;
  for (const auto* one = list; one != nullptr; one = one->ifa_next) {
    if ((one->ifa_flags & IFF_LOOPBACK) != 0)
      continue;
    const std::string name = one->ifa_name;
    if ((one->ifa_flags & IFF_UP) == 0) {
      if (one->ifa_addr != nullptr && one->ifa_addr->sa_family == AF_PACKET)
        down += (down.empty() ? "" : ", ") + name;
      continue;
    }
    if (one->ifa_addr == nullptr
        || (one->ifa_addr->sa_family != AF_INET
            && one->ifa_addr->sa_family != AF_INET6))
      continue;
    char host[NI_MAXHOST] = {};
    const socklen_t size = one->ifa_addr->sa_family == AF_INET
                             ? sizeof(sockaddr_in)
                             : sizeof(sockaddr_in6);
    if (::getnameinfo(one->ifa_addr, size, host, sizeof host, nullptr, 0,
                      NI_NUMERICHOST)
        != 0)
      continue;
    if (std::string{host}.starts_with("fe80"))
      continue; // of one cable alone
    const auto folder = "/sys/class/net/" + name;
    const auto speed = first_line(folder + "/speed");
    const auto mtu = first_line(folder + "/mtu");
    out.push_back(
      {Kind::good, "network",
       name + ' ' + host + (mtu.empty() ? "" : ", MTU " + mtu)
         + (speed.empty() || speed.front() == '-' ? ""
                                                  : ", " + speed + " Mbit/s"),
       ""});
  }
  if (out.empty())
    out.push_back({Kind::note, "network",
                   "no address beyond loopback"
                     + (down.empty() ? "" : " (" + down + " is down)"),
                   "other hosts cannot reach this one"});
  return out;
}

/// What others are told where nothing else is said, and what they make of it.
Finding own_name() {
  char name[HOST_NAME_MAX + 1] = {};
  ::gethostname(name, sizeof name - 1);
  const auto address = SocketAddress::find(name, 0);
  if (!address)
    return {Kind::note, "own name",
            std::string{name} + " is not known to this host's name service",
            "hosts are named by their addresses then: --listen "
              + first_own_address() + ":PORT"};
  if (address->host().starts_with("127."))
    return {Kind::note, "own name",
            std::string{name} + " is " + address->host()
              + " here, which no other host reaches",
            "say --listen "
              + (first_own_address().empty() ? "ADDRESS" : first_own_address())
              + ":PORT, or mend /etc/hosts"};
  return {Kind::good, "own name", std::string{name} + " is " + address->host(),
          ""};
}

Finding ports() {
  auto range = first_line("/proc/sys/net/ipv4/ip_local_port_range");
  std::ranges::replace(range, '\t', '-');
  const auto backlog = first_line("/proc/sys/net/core/somaxconn");
  return {Kind::good, "ports", "chosen from " + range + ", backlog " + backlog,
          ""};
}

std::vector<Finding> gpus() {
  const auto count = cuda_device_count();
  std::error_code failure;
  const bool idle = count == 0
                    && std::filesystem::exists("/proc/driver/nvidia", failure);
  std::vector<Finding> out{
    {idle ? Kind::note : Kind::good, "GPUs",
     count == 0 ? why_no_cuda() : std::to_string(count) + " usable by CUDA",
     ""}};
  const auto look = [&](const std::string& what, const auto& ask) {
    try {
      out.push_back({Kind::good, what, ask(), ""});
    } catch (const std::exception& missing) { // a library, or the GPU
      out.push_back({Kind::note, what, missing.what(), ""});
    }
  };
  for (uint32_t i = 0; i < count; ++i)
    look("cuda:" + std::to_string(i), [&] {
      return numeric_class({DeviceId::Kind::cuda, i}, Precision::float32);
    });
  if (count > 1)
    look("NCCL", [] { return kernels::nccl_version(); });
  return out;
}

// --- what the settings name --------------------------------------------------

Finding own_door(const std::string& text) {
  const auto endpoint = parse_endpoint(text);
  if (!endpoint)
    return {Kind::wrong, "--listen", text + " is not HOST:PORT", ""};
  const auto address = SocketAddress::find(endpoint->host, endpoint->port);
  if (!address)
    return {Kind::wrong, "--listen",
            "the host " + endpoint->host + " is not known",
            "give an address of this host"};
  const Descriptor socket{open_socket(*address)};
  const int on = 1;
  if (socket)
    ::setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (!socket || ::bind(socket.get(), address->get(), address->size()) != 0
      || ::listen(socket.get(), 1) != 0) {
    const int failure = errno;
    return {Kind::wrong, "--listen", text + ": " + std::strerror(failure),
            failure == EADDRINUSE
              ? "who has it: ss -ltnp | grep :" + std::to_string(endpoint->port)
            : failure == EADDRNOTAVAIL
              ? "give an address of this host: ip -brief address"
            : failure == EACCES ? "take a port from 1024 on"
                                : ""};
  }
  return {Kind::good, "--listen", text + " is free", ""};
}

Finding certificates(const Settings& settings) {
  const auto now = CertificateSource{settings.certificates}.now();
  const auto path = settings.certificates + '/' + authority_file;
  try {
    const InputFile file{path};
  } catch (const InputError& failure) {
    return {Kind::wrong, "--certificates", failure.what(),
            "copy the folder from the coordinator's host, or join with a token "
            "(troupe certificates token)"};
  }
  Certificate authority;
  std::error_code ignored;
  for (const auto& entry :
       fs::directory_iterator{settings.certificates, ignored}) {
    if (entry.path().extension() != ".pem" || !entry.is_regular_file(ignored))
      continue;
    const auto name = entry.path().filename().string();
    std::ifstream one{entry.path()};
    auto certificate = certificate_in(rest_of(one));
    if (!certificate)
      return {Kind::wrong, "--certificates",
              shown_text(entry.path().string()) + " is no certificate", ""};
    if (const auto why = why_not_now(period_of(certificate.get()), now);
        !why.empty())
      return {Kind::wrong, "--certificates", shown_text(name) + ' ' + why,
              "is this host's clock right? Else a new one: troupe certificates "
              "new, or a token"};
    if (name == authority_file)
      authority = std::move(certificate);
  }
  if (!authority)
    return {Kind::wrong, "--certificates", path + " is no file", ""};
  const auto period = period_of(authority.get());
  return {Kind::good, "--certificates",
          "authority " + fingerprint(authority.get()).substr(0, 12) + ", until "
            + date(period.to),
          ""};
}

std::vector<Finding> ways_to(const std::string& addresses) {
  std::vector<Finding> out;
  for (const auto& where : parse_endpoints(addresses)) {
    const auto reach = reach_host(where, patience);
    const auto from = own_address_towards(where.host);
    if (reach.kind == ReachKind::answers)
      out.push_back({Kind::good, "--coordinator",
                     to_string(where) + " takes connections, from "
                       + (from.empty() ? "here" : from),
                     ""});
    else
      out.push_back({Kind::wrong, "--coordinator", reach.line,
                     !from.empty() ? "from here it would be by " + from
                     : reach.kind == ReachKind::silent
                       ? "there is no route: ip route get " + where.host
                       : ""});
  }
  return out;
}

Finding data(const JobOptions& options) {
  try {
    const auto found = load_samples(options);
    return {Kind::good, "--data",
            found.train->name + ": " + std::to_string(found.train->samples())
              + " samples",
            ""};
  } catch (const std::exception& failure) {
    return {Kind::wrong, "--data", failure.what(), ""};
  }
}

} // namespace

std::vector<Finding> examine_machine(const Settings& settings) {
  std::vector<Finding> out{program(),     processor(),    memory(),
                           descriptors(), memory_files(), temporary_folder(),
                           clock(),       huge_pages()};
  for (auto& finding : gpus())
    out.push_back(std::move(finding));
  out.push_back(own_name());
  for (auto& finding : interfaces())
    out.push_back(std::move(finding));
  out.push_back(ports());
  if (settings.given.count("listen") > 0)
    out.push_back(own_door(settings.listen));
  if (!settings.certificates.empty())
    out.push_back(certificates(settings));
  if (!settings.coordinator.empty())
    for (auto& finding : ways_to(settings.coordinator))
      out.push_back(std::move(finding));
  if (!settings.job.data.empty())
    out.push_back(data(settings.job));
  return out;
}

std::vector<Finding> examine_devices(const Settings& settings) {
  const auto& devices = settings.job.devices;
  if (devices.empty())
    return {};
  if (devices.front() == "cuda:all")
    return {try_devices(devices.front(), cuda_device_count())};
  // Those of one job may be unlike; each kind has bits of its own.
  std::vector<Finding> out;
  auto rest = devices;
  while (!rest.empty()) {
    const auto kind = rest.front().substr(0, rest.front().find(':'));
    const auto end = std::stable_partition(rest.begin(), rest.end(),
                                           [&](const auto& device) {
                                             return device.starts_with(kind);
                                           });
    const std::vector<std::string> alike(rest.begin(), end);
    out.push_back(
      try_devices(print_devices(alike), static_cast<uint32_t>(alike.size())));
    rest.erase(rest.begin(), end);
  }
  return out;
}

} // namespace troupe
