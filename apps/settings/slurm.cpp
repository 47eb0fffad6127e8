#include "apps/settings/slurm.hpp"

#include "apps/terminal/numbers.hpp"
#include "kernels/base/error.hpp"

#include <algorithm>
#include <cstdint>

namespace troupe {
namespace {

constexpr size_t max_hosts = 10'000;
constexpr uint64_t largest_number = 999'999'999;

/// Parts at the commas that no bracket holds.
std::vector<std::string> parts_of(const std::string& list) {
  std::vector<std::string> parts(1);
  int depth = 0;
  for (const char c : list) {
    depth += c == '[' ? 1 : c == ']' ? -1 : 0;
    if (c == ',' && depth == 0)
      parts.emplace_back();
    else
      parts.back() += c;
  }
  return parts;
}

/// "01-03" as 01, 02, 03; "7" as itself.
void add_numbers(const std::string& range, std::vector<std::string>& numbers) {
  const auto dash = range.find('-');
  const auto first = range.substr(0, dash);
  const auto last = dash == std::string::npos ? first : range.substr(dash + 1);
  const auto from = parse_whole(first, 0, largest_number);
  const auto to = parse_whole(last, from, largest_number);
  if (to - from >= max_hosts)
    throw UsageError("more than " + std::to_string(max_hosts) + " hosts");
  for (auto number = from; number <= to; ++number) {
    auto text = std::to_string(number);
    if (text.size() < first.size())
      text.insert(0, first.size() - text.size(), '0');
    numbers.push_back(std::move(text));
  }
}

/// Every name that one part stands for; brackets may be anywhere in it.
std::vector<std::string> names_of(const std::string& part) {
  std::vector<std::string> names{""};
  for (size_t at = 0; at < part.size();) {
    std::vector<std::string> next;
    if (part[at] == '[') {
      const auto end = part.find(']', at);
      if (end == std::string::npos)
        throw UsageError("'" + part + "' has a bracket without its end");
      std::vector<std::string> numbers;
      for (const auto& range : parts_of(part.substr(at + 1, end - at - 1)))
        add_numbers(range, numbers);
      if (names.size() * numbers.size() > max_hosts)
        throw UsageError("more than " + std::to_string(max_hosts) + " hosts");
      for (const auto& name : names)
        for (const auto& number : numbers)
          next.push_back(name + number);
      at = end + 1;
    } else {
      const auto end = std::min(part.find('[', at), part.size());
      for (const auto& name : names)
        next.push_back(name + part.substr(at, end - at));
      at = end;
    }
    names = std::move(next);
  }
  if (names.front().empty())
    throw UsageError("a host without a name");
  return names;
}

/// "2(x3),1" as 2, 2, 2, 1.
std::vector<std::string> counts_of(const std::string& tasks) {
  std::vector<std::string> out;
  for (const auto& part : parts_of(tasks)) {
    const auto times = part.find("(x");
    const bool many = times != std::string::npos && part.ends_with(')');
    const auto count = parse_whole(part.substr(0, times), 1, max_hosts);
    const auto hosts =
      many ? parse_whole(part.substr(times + 2, part.size() - times - 3), 1,
                         max_hosts)
           : 1;
    if (out.size() + hosts > max_hosts)
      throw UsageError("more than " + std::to_string(max_hosts) + " hosts");
    out.insert(out.end(), hosts, std::to_string(count));
  }
  return out;
}

} // namespace

std::vector<std::string> slurm_hosts(const std::string& list) {
  try {
    std::vector<std::string> out;
    for (const auto& part : parts_of(list)) {
      auto names = names_of(part);
      if (out.size() + names.size() > max_hosts)
        throw UsageError("more than " + std::to_string(max_hosts) + " hosts");
      out.insert(out.end(), names.begin(), names.end());
    }
    return out;
  } catch (const UsageError& mistake) {
    throw UsageError("SLURM_JOB_NODELIST: " + list + ": " + mistake.what()
                     + "; name the hosts with -H");
  }
}

std::string hosts_of_slurm(const SlurmWords& words) {
  const auto hosts = slurm_hosts(words.nodes);
  std::vector<std::string> counts;
  try {
    if (!words.tasks.empty())
      counts = counts_of(words.tasks);
    if (!counts.empty() && counts.size() != hosts.size())
      throw UsageError("of " + std::to_string(counts.size())
                       + " hosts, and the allocation has "
                       + std::to_string(hosts.size()));
  } catch (const UsageError& mistake) {
    throw UsageError("SLURM_TASKS_PER_NODE: " + words.tasks + ": "
                     + mistake.what() + "; name the hosts with -H");
  }
  std::string out;
  for (size_t i = 0; i < hosts.size(); ++i)
    out += (i == 0 ? "" : ",") + hosts[i] + ':'
           + (counts.empty() ? "1" : counts[i]);
  return out;
}

} // namespace troupe
