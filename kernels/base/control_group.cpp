#include "kernels/base/control_group.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <sstream>
#include <vector>

namespace troupe {
namespace {

using Words = std::vector<std::string>;

Words split(const std::string& text, char at) {
  Words words;
  std::istringstream in{text};
  for (std::string word; std::getline(in, word, at);)
    words.push_back(word);
  return words;
}

bool has(const std::string& list, const std::string& word) {
  const auto words = split(list, ',');
  return std::find(words.begin(), words.end(), word) != words.end();
}

/// A path of mountinfo, in which \040 is a blank.
std::string unescaped(const std::string& text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    unsigned code = 0;
    const auto* digits = text.data() + i + 1;
    if (text[i] == '\\' && i + 3 < text.size()
        && std::from_chars(digits, digits + 3, code, 8).ptr == digits + 3) {
      out += static_cast<char>(code);
      i += 3;
    } else {
      out += text[i];
    }
  }
  return out;
}

/// Where groups of one hierarchy are files.
struct Mount {
  bool unified = false;    ///< version 2
  std::string controllers; ///< of version 1, among other words
  std::string root;        ///< the group that is seen at `point`
  std::string point;
};

/// A line of mountinfo: "31 23 0:28 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw".
std::optional<Mount> parse_mount(const std::string& line) {
  const auto words = split(line, ' ');
  const auto dash = std::find(words.begin(), words.end(), "-");
  if (dash - words.begin() < 5 || words.end() - dash < 4)
    return std::nullopt;
  const auto& type = *(dash + 1);
  if (type != "cgroup" && type != "cgroup2")
    return std::nullopt;
  return Mount{type == "cgroup2", *(dash + 3), unescaped(words[3]),
               unescaped(words[4])};
}

/// What a path below a mount's root is called there; a group that cannot be
/// seen there (a container's, as its host calls it) is the mount itself.
std::string below(const std::string& path, const std::string& root) {
  if (path.find("/..") != std::string::npos)
    return "";
  if (root == "/")
    return path == "/" ? "" : path;
  const bool inside = path.starts_with(root)
                      && (path.size() == root.size()
                          || path[root.size()] == '/');
  return inside ? path.substr(root.size()) : "";
}

/// The folders of this process's groups, the innermost first.
class Groups {
public:
  explicit Groups(const std::string& root) : root_(root) {
    std::ifstream own{root + "/proc/self/cgroup"};
    for (std::string line; std::getline(own, line);)
      if (const auto first = line.find(':'), second = line.find(':', first + 1);
          second != std::string::npos)
        paths_.push_back({line.substr(first + 1, second - first - 1),
                          line.substr(second + 1)});
    std::ifstream mounts{root + "/proc/self/mountinfo"};
    for (std::string line; std::getline(mounts, line);)
      if (auto mount = parse_mount(line))
        mounts_.push_back(std::move(*mount));
  }

  Words folders(bool unified, const std::string& controller) const {
    Words out;
    for (const auto& [controllers, path] : paths_) {
      if (unified ? !controllers.empty() : !has(controllers, controller))
        continue;
      for (const auto& mount : mounts_) {
        if (mount.unified != unified
            || (!unified && !has(mount.controllers, controller)))
          continue;
        for (auto rest = below(path, mount.root);;
             rest.resize(rest.rfind('/'))) {
          out.push_back(root_ + mount.point + rest);
          if (rest.empty())
            break;
        }
        break; // other mounts show the same
      }
    }
    return out;
  }

private:
  struct Path {
    std::string controllers; ///< empty: version 2
    std::string path;
  };
  std::string root_;
  std::vector<Path> paths_;
  std::vector<Mount> mounts_;
};

/// The first words of a small file; none where it cannot be read.
Words words_of(const std::string& path) {
  std::ifstream file{path};
  Words words;
  for (std::string word; words.size() < 64 && file >> word;)
    words.push_back(word);
  return words;
}

/// Errors: nullopt for "max", -1 and anything else that is no number.
std::optional<uint64_t> number(const Words& words, size_t index) {
  if (index >= words.size())
    return std::nullopt;
  const auto& text = words[index];
  uint64_t value = 0;
  const auto* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc{} || stop != end)
    return std::nullopt;
  return value;
}

template <class Number>
void lower(Number& limit, Number value) {
  limit = limit == 0 ? value : std::min(limit, value);
}

void lower_processors(double& limit, std::optional<uint64_t> quota,
                      std::optional<uint64_t> period) {
  if (quota && *quota > 0 && period && *period > 0)
    lower(limit, static_cast<double>(*quota) / static_cast<double>(*period));
}

/// Version 1 has no word for "no limit": it is the largest number of pages.
constexpr uint64_t unlimited = uint64_t{1} << 60;

std::optional<uint64_t> count_after(const Words& words,
                                    const std::string& name) {
  const auto found = std::find(words.begin(), words.end(), name);
  return number(words, static_cast<size_t>(found - words.begin()) + 1);
}

} // namespace

ControlGroup read_control_group(const std::string& root) {
  const Groups groups{root};
  ControlGroup out;
  for (const auto& folder : groups.folders(true, "")) {
    const auto time = words_of(folder + "/cpu.max");
    lower_processors(out.processors, number(time, 0), number(time, 1));
    if (auto bytes = number(words_of(folder + "/memory.max"), 0))
      lower(out.memory_bytes, *bytes);
    if (auto tasks = number(words_of(folder + "/pids.max"), 0))
      lower(out.tasks, *tasks);
  }
  for (const auto& folder : groups.folders(false, "cpu"))
    lower_processors(out.processors,
                     number(words_of(folder + "/cpu.cfs_quota_us"), 0),
                     number(words_of(folder + "/cpu.cfs_period_us"), 0));
  for (const auto& folder : groups.folders(false, "memory"))
    if (auto bytes = number(words_of(folder + "/memory.limit_in_bytes"), 0);
        bytes && *bytes < unlimited)
      lower(out.memory_bytes, *bytes);
  for (const auto& folder : groups.folders(false, "pids"))
    if (auto tasks = number(words_of(folder + "/pids.max"), 0))
      lower(out.tasks, *tasks);
  return out;
}

std::optional<uint64_t> count_memory_kills(const std::string& root) {
  const Groups groups{root};
  for (const auto& folder : groups.folders(true, ""))
    if (auto count = count_after(words_of(folder + "/memory.events"),
                                 "oom_kill"))
      return count;
  for (const auto& folder : groups.folders(false, "memory"))
    if (auto count = count_after(words_of(folder + "/memory.oom_control"),
                                 "oom_kill"))
      return count;
  std::ifstream machine{root + "/proc/vmstat"};
  for (std::string line; std::getline(machine, line);)
    if (line.starts_with("oom_kill "))
      return number(split(line, ' '), 1);
  return std::nullopt;
}

std::string in_units(uint64_t bytes) {
  constexpr std::array<const char*, 5> units{"bytes", "KiB", "MiB", "GiB",
                                             "TiB"};
  auto value = static_cast<double>(bytes);
  size_t unit = 0;
  for (; value >= 1024 && unit + 1 < units.size(); ++unit)
    value /= 1024;
  char text[32];
  const bool whole = value >= 100 || value == std::floor(value);
  std::snprintf(text, sizeof text, whole ? "%.0f %s" : "%.1f %s", value,
                units[unit]);
  return text;
}

uint32_t processors_within(uint32_t allowed, const ControlGroup& group) {
  if (group.processors <= 0 || group.processors >= allowed)
    return allowed;
  return std::max(1u, static_cast<uint32_t>(group.processors));
}

} // namespace troupe
