#include "actors/sockets/addresses.hpp"
#include "apps/settings/binding.hpp"

namespace troupe {

using namespace binding;

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
  return flags;
}

} // namespace troupe
