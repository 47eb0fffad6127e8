#pragma once

#include <map>
#include <string>
#include <vector>

namespace troupe {

/// The arguments sorted by name; values are still text.
struct CommandLine {
  std::string command;          ///< "train", "bench step", "help", …
  std::string topic;            ///< of "help"
  std::string role;             ///< of "role": "worker:0"; empty when not given
  std::vector<std::string> job; ///< of "chaos" and "launch": what follows --
  std::map<std::string, std::string> flags; ///< a toggle's value is "true"
};

/// Sorts the arguments after the program's name.
/// Errors: UsageError (no or unknown command, unknown flag with the nearest
/// one, a value that is missing, a flag given twice, "not available yet").
CommandLine parse_command_line(const std::vector<std::string>& arguments);

} // namespace troupe
