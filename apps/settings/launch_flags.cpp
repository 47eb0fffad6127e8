#include "actors/sockets/addresses.hpp"
#include "apps/settings/binding.hpp"

#include <algorithm>

namespace troupe {

using namespace binding;

namespace {

bool is_small_or_digit(char c) {
  return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
}

/// Reads what Kubernetes calls a DNS label.
/// Errors: UsageError.
std::string dns_label(const std::string& text, size_t longest) {
  const bool fits = !text.empty() && text.size() <= longest
                    && is_small_or_digit(text.front())
                    && is_small_or_digit(text.back())
                    && std::ranges::all_of(text, [](char c) {
                         return is_small_or_digit(c) || c == '-';
                       });
  if (!fits)
    throw UsageError("expected small letters, digits and dashes between them, "
                     "at most "
                     + std::to_string(longest));
  return text;
}

/// Reads an amount of bytes as Kubernetes writes it: 10Gi.
/// Errors: UsageError.
std::string storage_amount(const std::string& text) {
  const auto unit = text.find_first_not_of("0123456789");
  const auto suffix = unit == text.npos ? std::string{} : text.substr(unit);
  const Choices units{"", "k", "M", "G", "T", "Ki", "Mi", "Gi", "Ti"};
  if (unit == 0 || unit > 9 || text.front() == '0'
      || std::ranges::find(units, suffix) == units.end())
    throw UsageError("expected an amount such as 10Gi");
  return text;
}

/// Reads CLAIM:PATH. Errors: UsageError.
std::string claim_at(const std::string& text) {
  const auto colon = text.find(':');
  if (colon == text.npos || text.compare(colon + 1, 1, "/") != 0)
    throw UsageError("expected a claim's name and a path, for example "
                     "mnist:/data/mnist");
  dns_label(text.substr(0, colon), 63);
  return text;
}

void add_kubernetes(std::vector<Flag>& flags) {
  const auto add = [&](const char* name, const char* value,
                       const char* fallback, const char* help,
                       std::function<void(Settings&, const std::string&)> set) {
    flags.push_back({name, value, FlagType::text, on_launch, "Kubernetes",
                     fallback, help, std::move(set), nullptr});
  };
  add("kubernetes", "", "no",
      "print what kubectl apply takes to run the job in a cluster, keys of its "
      "members included, and start nothing",
      toggle(FIELD(launch.kubernetes.asked), true).set);
  flags.back().type = FlagType::toggle;
  // Pods have a role and a number behind it, 63 letters in all.
  add("name", "NAME", "troupe", "of the job; its objects' names begin with it",
      [](Settings& s, const std::string& value) {
        s.launch.kubernetes.name = dns_label(value, 40);
      });
  add("namespace", "NAME", "the one that kubectl uses",
      "the objects' namespace", [](Settings& s, const std::string& value) {
        s.launch.kubernetes.space = dns_label(value, 63);
      });
  add("image", "IMAGE", "troupe and this version",
      "the image with this program", [](Settings& s, const std::string& value) {
        if (value.find_first_of(" \t\n") != value.npos)
          throw UsageError("expected an image's name, for example "
                           "registry.example/troupe:1");
        s.launch.kubernetes.image = value;
      });
  add("storage", "SIZE", "10Gi",
      "of the volume on which the coordinator keeps journal, checkpoints and "
      "what else the run writes",
      [](Settings& s, const std::string& value) {
        s.launch.kubernetes.storage = storage_amount(value);
      });
  add("claim", "CLAIM:PATH", "none",
      "a claim of a volume with data, which every pod reads at this path",
      [](Settings& s, const std::string& value) {
        s.launch.kubernetes.claim = claim_at(value);
      });
}

} // namespace

std::vector<Flag> launch_flags() {
  std::vector<Flag> flags;
  const auto add = [&](const char* name, const char* value,
                       const char* fallback, const char* help,
                       std::function<void(Settings&, const std::string&)> set) {
    flags.push_back({name, value, FlagType::text, on_launch, "Hosts", fallback,
                     help, std::move(set), nullptr});
  };
  add("hosts", "HOST:N,…", "those of a Slurm allocation",
      "the hosts, as ssh calls them, and how many workers, shards and stages "
      "each takes (1 without :N); also -H; localhost is this machine, without "
      "ssh",
      text(FIELD(launch.hosts)).set);
  add("hosts-file", "FILE", "none",
      "the same, a host a line: NAME slots=N address=A; the address is the one "
      "by which other hosts reach it",
      text(FIELD(launch.hosts_file)).set);
  add("hosts-between", "MIN:MAX", "all of them",
      "begin once MIN of the hosts are there, take others up to MAX as they "
      "come, and go on when one goes; also --hosts MIN:MAX; for "
      "parameter_server with --workers MIN:MAX",
      [](Settings& s, const std::string& value) {
        const auto colon = value.find(':');
        if (colon == std::string::npos)
          throw UsageError("expected MIN:MAX");
        constexpr uint32_t max_named = 10'000;
        s.launch.min_hosts = static_cast<uint32_t>(
          parse_whole(value.substr(0, colon), 1, max_named));
        s.launch.max_hosts = static_cast<uint32_t>(
          parse_whole(value.substr(colon + 1), 1, max_named));
      });
  add("address", "A", "as the hosts see it",
      "by which they reach the coordinator on this machine, in digits",
      [](Settings& s, const std::string& value) {
        if (!SocketAddress::of_number(value, 0))
          throw UsageError("expected an address in digits, for example "
                           "10.0.0.1");
        s.launch.address = value;
      });
  add("remote-path", "FILE", ".cache/troupe/ and the program's SHA-256",
      "where the program lies on the hosts; it is copied there where it is "
      "missing, and refused where it is another one",
      text(FIELD(launch.remote_path)).set);
  add("ssh", "COMMAND", "ssh",
      "ssh with options of its own, blanks between them: 'ssh -p 2222'",
      text(FIELD(launch.ssh)).set);
  add("connect-deadline-s", "N", "10", "how long a host may take to be there",
      whole(FIELD(launch.connect_deadline_s), 1, 3600).set);
  flags.back().type = FlagType::number;
  add("dry-run", "", "no",
      "print what would be started where, and touch no host",
      toggle(FIELD(launch.dry_run), true).set);
  flags.back().type = FlagType::toggle;
  add_kubernetes(flags);
  return flags;
}

} // namespace troupe
