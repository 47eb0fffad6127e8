#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace troupe {

/// What a host needs to have: this program, by its bytes.
struct ProgramFile {
  std::string version;
  std::string sha256; ///< hexadecimal
  uint64_t bytes = 0;
  /// On the hosts; what begins with no slash lies in the user's home.
  std::string path;
  bool own_path = false; ///< --remote-path: nothing else there is troupe's
};

/// Where the program lies on a host that was not told another place.
std::string usual_remote_path(const std::string& sha256);

/// The command that ssh runs on a host: it becomes the agent where the program
/// is there, says how another one differs, or takes its bytes from standard
/// input where there is none.
std::string agent_command(const ProgramFile& program);

/// Begins each line that the command says before there is an agent.
inline constexpr const char* agent_word = "troupe-node: ";
/// It lacks the program, and waits for a line and the bytes.
inline constexpr const char* agent_lacks = "troupe-node: lacks ";

/// ssh's own words, and options that never let it ask anybody: for a host, and
/// a command there. `seconds`: to connect.
std::vector<std::string> ssh_words(const std::vector<std::string>& ssh,
                                   uint64_t seconds, const std::string& host,
                                   const std::string& command);

/// Why there is no agent, in a line that says what to do: from what ssh and the
/// command have said, the newest last, and how ssh ended ("exit status 255").
std::string why_no_agent(const std::string& host, const ProgramFile& program,
                         const std::vector<std::string>& said,
                         const std::string& end);

} // namespace troupe
