#include "kernels/files/free_memory.hpp"

#include "kernels/base/control_group.hpp"
#include "kernels/base/error.hpp"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <limits>

namespace troupe {
namespace {

constexpr auto unbounded = std::numeric_limits<uint64_t>::max();
/// Below it nobody is refused: the allocator may have that much in hand.
constexpr uint64_t always_free = uint64_t{64} << 20;

/// The number behind a name of a file of the system; `missing` without one.
uint64_t number_in(const std::string& path, const std::string& name,
                   uint64_t missing) {
  std::ifstream file{path};
  uint64_t value = 0;
  if (name.empty())
    return file >> value ? value : missing;
  for (std::string word; file >> word;)
    if (word == name)
      return file >> value ? value : missing;
  return missing;
}

uint64_t left_of(uint64_t limit, uint64_t used) {
  return limit > used ? limit - used : 0;
}

uint64_t left_on_machine() {
  const auto kib = number_in("/proc/meminfo", "MemAvailable:", unbounded);
  return kib == unbounded ? unbounded : kib << 10;
}

/// What a control group of memory leaves; pages of files go when others come.
uint64_t left_in_group(const std::string& folder) {
  const auto limit = number_in(folder + "/memory.max", "", unbounded);
  if (limit == unbounded) // "max"
    return unbounded;
  return left_of(limit + number_in(folder + "/memory.stat", "inactive_file", 0),
                 number_in(folder + "/memory.current", "", 0));
}

uint64_t left_in_groups() {
  const std::string root = "/sys/fs/cgroup";
  std::ifstream file{"/proc/self/cgroup"};
  std::string own;
  for (std::string line; std::getline(file, line);)
    if (line.starts_with("0::/"))
      own = line.substr(3);
  auto left = left_in_group(root);
  for (; own.size() > 1; own.resize(own.rfind('/')))
    left = std::min(left, left_in_group(root + own));
  return left;
}

uint64_t left_of_addresses() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY)
    return unbounded;
  const auto pages = number_in("/proc/self/statm", "", 0);
  return left_of(limit.rlim_cur,
                 pages * static_cast<uint64_t>(::sysconf(_SC_PAGESIZE)));
}

} // namespace

uint64_t free_memory() {
  return std::min({left_on_machine(), left_in_groups(), left_of_addresses()});
}

void need_memory(uint64_t bytes, const std::string& what,
                 const std::string& advice) {
  if (bytes <= always_free)
    return;
  if (const auto left = free_memory(); bytes > left)
    throw InputError(what + " takes " + in_units(bytes) + " of memory and "
                     + in_units(left) + " are free; " + advice);
}

} // namespace troupe
