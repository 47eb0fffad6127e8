#include "apps/launch/ssh_words.hpp"

#include "apps/terminal/shell_word.hpp"

#include <algorithm>
#include <sstream>

namespace troupe {
namespace {

/// One line, as a login shell may be any: $1 file, $2 SHA-256, $3 bytes, $4
/// pattern of files that are ours beside it. The bytes are read by `head`,
/// which takes no more than it was told to; `read` takes a line.
constexpr const char* script =
  R"-(f=$1; case "$f" in /*) ;; *) f=$HOME/$f;; esac; )-"
  R"-(if [ -e "$f" ]; then s=$(sha256sum < "$f"); )-"
  R"-(if [ "${s%% *}" = "$2" ] && [ -x "$f" ]; then exec "$f" node; fi; )-"
  R"-(v=$("$f" version 2>&1 | head -n 1); )-"
  R"-(echo "troupe-node: differs ${s%% *} $v"; exit 1; fi; )-"
  R"-(echo "troupe-node: lacks $(uname -m)"; read -r go || exit 1; )-"
  R"-(t=$f.new.$(uname -n).$$; d=${f%/*}; )-"
  R"-(e=$({ mkdir -p "$d" && head -c "$3" > "$t"; } 2>&1); )-"
  R"-(s=$(sha256sum < "$t"); )-"
  R"-(if [ "${s%% *}" = "$2" ] && chmod 755 "$t" && mv -f "$t" "$f"; then )-"
  R"-([ -z "$4" ] || find "$d" -maxdepth 1 -name "$4" ! -name "${f##*/}" )-"
  R"-(-mtime +1 -exec rm -f {} +; exec "$f" node; fi; )-"
  R"-(rm -f "$t"; echo "troupe-node: copy $f: ${e:-other bytes arrived}"; )-"
  R"-(exit 1)-";

std::string first_of(const std::vector<std::string>& said, const char* text) {
  const auto found = std::ranges::find_if(said, [&](const std::string& line) {
    return line.find(text) != std::string::npos;
  });
  return found == said.end() ? std::string{} : *found;
}

/// "differs SHA VERSION"
std::string other_program(const std::string& words,
                          const ProgramFile& program) {
  std::istringstream in{words};
  std::string sha256;
  in >> sha256;
  std::string version;
  std::getline(in >> std::ws, version);
  return program.path + " is another program there ("
         + (version.empty() ? "which says no version" : version)
         + (sha256.empty() ? "" : ", SHA-256 " + sha256.substr(0, 12) + "…")
         + "), and this is " + program.version + ", SHA-256 "
         + program.sha256.substr(0, 12)
         + "…: remove it, and this one is copied there, or name another "
           "--remote-path";
}

} // namespace

std::string usual_remote_path(const std::string& sha256) {
  return ".cache/troupe/troupe-" + sha256.substr(0, 16);
}

std::string agent_command(const ProgramFile& program) {
  return std::string{"exec sh -c "} + shell_word(script) + " sh "
         + shell_word(program.path) + " " + program.sha256 + " "
         + std::to_string(program.bytes) + " "
         + shell_word(program.own_path ? "" : "troupe-*");
}

std::vector<std::string> ssh_words(const std::vector<std::string>& ssh,
                                   uint64_t seconds, const std::string& host,
                                   const std::string& command) {
  auto words = ssh;
  for (const auto& option :
       {std::string{"BatchMode=yes"},
        "ConnectTimeout=" + std::to_string(seconds),
        std::string{"ServerAliveInterval=5"},
        std::string{"ServerAliveCountMax=3"}, std::string{"ControlPath=none"},
        std::string{"ClearAllForwardings=yes"}, std::string{"ForwardAgent=no"},
        std::string{"LogLevel=ERROR"}})
    words.insert(words.end(), {"-o", option});
  words.insert(words.end(), {"-T", host, command});
  return words;
}

std::string why_no_agent(const std::string& host, const ProgramFile& program,
                         const std::vector<std::string>& said,
                         const std::string& end) {
  const auto at = host + ": ";
  const auto has = [&](const char* text) {
    return !first_of(said, text).empty();
  };
  if (const auto line = first_of(said, "troupe-node: differs "); !line.empty())
    return at + other_program(line.substr(line.find("differs ") + 8), program);
  if (const auto line = first_of(said, "troupe-node: copy "); !line.empty())
    return at + "the program cannot be copied to "
           + line.substr(line.find("copy ") + 5)
           + "; name another --remote-path";
  if (const auto line = first_of(said, "error while loading shared libraries");
      !line.empty())
    return at + "the program does not start there ("
           + line.substr(line.find("error while"))
           + "); install troupe's package there, with what it depends on";
  if (has("REMOTE HOST IDENTIFICATION HAS CHANGED"))
    return at
           + "it shows another host key than the one in known_hosts: find out "
             "why, then ssh-keygen -R "
           + host;
  if (has("Host key verification failed"))
    return at + "its host key is not known here: connect once by hand (ssh "
           + host + "), compare the fingerprint and accept it";
  if (const auto line = first_of(said, "Permission denied"); !line.empty())
    return at + "ssh would ask for a password, or takes no key of yours ("
           + line.substr(line.find("Permission denied"))
           + "): put your key there (ssh-copy-id " + host
           + "), or load it (ssh-add)";
  if (has("Could not resolve hostname"))
    return at
           + "there is no host of that name: write its address, or an entry in "
             "~/.ssh/config";
  if (has("Connection refused"))
    return at
           + "nobody takes ssh's connection: start sshd there, or name its "
             "port in ~/.ssh/config";
  if (has("timed out") || has("No route to host")
      || has("Network is unreachable"))
    return at + "it does not answer (" + said.back()
           + "): is it up, and does no firewall drop ssh?";
  return at + "no agent started there, ssh ended with " + end
         + (said.empty() ? std::string{} : ": " + said.back())
         + "; try it by hand: ssh " + host;
}

} // namespace troupe
