#include "apps/settings/command_line.hpp"

#include "actors/sockets/endpoint.hpp"
#include "apps/settings/flags.hpp"
#include "apps/settings/foreign_flags.hpp"
#include "kernels/base/error.hpp"
#include "kernels/base/suggestion.hpp"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <set>

// The one place that knows CLI11; what flags there are comes from the table.

namespace troupe {

namespace {

using Words = std::vector<std::string>;

bool contains(const Words& words, const std::string& word) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

std::string did_you_mean(const std::string& near, const std::string& before) {
  return near.empty() ? std::string{} : "; did you mean " + before + near + "?";
}

bool is_help(const std::string& word) {
  return word == "--help" || word == "-h";
}

/// Takes the command, and what belongs to its name, off the arguments.
CommandLine take_command(Words& rest) {
  CommandLine line;
  if (rest.empty())
    throw UsageError("no command given; run 'troupe --help'");
  line.command = rest.front();
  rest.erase(rest.begin());
  if (is_help(line.command))
    line.command = "help";
  if (line.command == "--version")
    line.command = "version";
  if (line.command.rfind('-', 0) == 0)
    throw UsageError("the command comes first, then " + line.command
                     + "; run 'troupe --help'");
  if (!contains(commands(), line.command))
    throw UsageError(
      "unknown command " + line.command
      + did_you_mean(nearest(line.command, commands()), "troupe ")
      + " (run 'troupe --help')");
  return line;
}

/// Reads `model show M`.
void take_model(CommandLine& line, Words& rest) {
  if (rest.empty() || rest.front() != "show")
    throw UsageError("model takes what to do first; use model show M");
  line.command = "model show";
  rest.erase(rest.begin());
  if (rest.empty() || rest.front().rfind('-', 0) == 0)
    return;
  line.flags["model"] = rest.front();
  rest.erase(rest.begin());
}

/// Reads `data info SPEC`.
void take_data(CommandLine& line, Words& rest) {
  if (rest.empty() || rest.front() != "info")
    throw UsageError("data takes what to do first; use data info csv:FILE");
  line.command = "data info";
  rest.erase(rest.begin());
  if (rest.empty() || rest.front().rfind('-', 0) == 0)
    return;
  line.flags["data"] = rest.front();
  rest.erase(rest.begin());
}

/// Reads `ctl consistency MODE`, `ctl shards add 2` and such.
void take_control(CommandLine& line, Words& rest) {
  const Words known{"consistency", "shards", "workers", "rebalance",
                    "move-slices"};
  if (rest.empty() || !contains(known, rest.front()))
    throw UsageError("ctl takes what to change first; use ctl consistency, "
                     "shards, workers, rebalance or move-slices");
  const auto what = rest.front();
  line.command = "ctl " + what;
  auto text = what == "consistency" ? std::string{} : what;
  rest.erase(rest.begin());
  while (!rest.empty() && rest.front().rfind('-', 0) != 0) {
    text += (text.empty() ? "" : " ") + rest.front();
    rest.erase(rest.begin());
  }
  if (!text.empty())
    line.flags[what == "consistency" ? "consistency" : "change"] = text;
}

/// Reads `report SUMMARY FILE`.
void take_report(CommandLine& line, Words& rest) {
  for (const auto* flag : {"path", "out"})
    if (!rest.empty() && rest.front().rfind('-', 0) != 0) {
      line.flags[flag] = rest.front();
      rest.erase(rest.begin());
    }
}

/// Reads `certificates new worker:1` and such.
void take_certificates(CommandLine& line, Words& rest) {
  const Words known{"new", "token", "renew", "revoke", "show"};
  if (rest.empty() || !contains(known, rest.front()))
    throw UsageError("certificates takes what to do first; use certificates "
                     "new, token, renew, revoke or show");
  line.command = "certificates " + rest.front();
  rest.erase(rest.begin());
  if (line.command.ends_with(" show") || rest.empty()
      || rest.front().rfind('-', 0) == 0)
    return;
  line.flags["member"] = rest.front();
  rest.erase(rest.begin());
}

/// Reads `checkpoint ls DIR` and such.
void take_checkpoint(CommandLine& line, Words& rest) {
  const Words known{"ls", "verify", "export"};
  if (rest.empty() || !contains(known, rest.front()))
    throw UsageError("checkpoint takes what to do first; use checkpoint ls, "
                     "verify or export");
  line.command = "checkpoint " + rest.front();
  rest.erase(rest.begin());
  if (rest.empty() || rest.front().rfind('-', 0) == 0)
    return;
  line.flags["folder"] = rest.front();
  rest.erase(rest.begin());
}

bool is_range(const std::string& text) {
  const auto colon = text.find(':');
  const auto is_number = [](const std::string& word) {
    return !word.empty()
           && word.find_first_not_of("0123456789") == std::string::npos;
  };
  return colon != std::string::npos && is_number(text.substr(0, colon))
         && is_number(text.substr(colon + 1));
}

/// -H names hosts, and so does --hosts, or how many of them.
void tell_hosts_apart(Words& rest) {
  for (size_t i = 0; i < rest.size(); ++i) {
    auto& word = rest[i];
    if (word == "-H")
      word = "--hosts";
    else if (word == "--hosts" && i + 1 < rest.size() && is_range(rest[i + 1]))
      word = "--hosts-between";
    else if (word.starts_with("--hosts=") && is_range(word.substr(8)))
      word = "--hosts-between=" + word.substr(8);
  }
}

/// Reads `chaos [flags] -- train …` and `launch -H HOSTS -- train …`.
void take_job(CommandLine& line, Words& rest) {
  const auto dashes = std::find(rest.begin(), rest.end(), "--");
  line.job.assign(dashes == rest.end() ? dashes : dashes + 1, rest.end());
  rest.erase(dashes, rest.end());
}

/// What a run prints is taken as well: http://HOST:PORT/metrics.
std::string address_of(const std::string& command, const std::string& word) {
  auto text = word;
  for (const std::string scheme : {"http://", "https://"})
    if (text.starts_with(scheme))
      text.erase(0, scheme.size());
  text = text.substr(0, text.find('/'));
  if (!parse_endpoint(text))
    throw UsageError("'troupe " + command + "' takes the address that the run "
                     + "printed as metrics, HOST:PORT, not " + word
                     + "; for example troupe " + command + " 127.0.0.1:9400");
  return text;
}

/// Keeps what a command is about, where it takes one word of that: a role's
/// name, a file, an address of metrics.
bool keep_subject(CommandLine& line, const std::string& word) {
  if (line.command == "role")
    line.role = word;
  else if (line.command == "events" || line.command == "timeline")
    line.flags["path"] = word;
  else if (line.command == "status" || line.command == "top"
           || line.command == "doctor")
    line.flags["metrics-address"] = address_of(line.command, word);
  else
    return false;
  return true;
}

/// Reads `bench step`, `model show`, `help train` and a role's name.
void take_operand(CommandLine& line, Words& rest) {
  auto operand = rest.empty() || rest.front().rfind('-', 0) == 0 ? std::string{}
                                                                 : rest.front();
  if (line.command == "bench") {
    const std::string known =
      "; use bench step, data, kernels, all-reduce, null-step, "
      "parameter-server, pipeline, recovery or goodput";
    if (bit_of("bench " + operand) == 0)
      throw UsageError("bench takes what to measure first"
                       + (operand.empty() ? "" : ", not " + operand) + known);
    line.command = "bench " + operand;
  } else if (line.command == "model") {
    take_model(line, rest);
    return;
  } else if (line.command == "data") {
    take_data(line, rest);
    return;
  } else if (line.command == "checkpoint") {
    take_checkpoint(line, rest);
    return;
  } else if (line.command == "report") {
    take_report(line, rest);
    return;
  } else if (line.command == "certificates") {
    take_certificates(line, rest);
    return;
  } else if (line.command == "ctl") {
    take_control(line, rest);
    return;
  } else if (line.command == "chaos" || line.command == "launch") {
    take_job(line, rest);
    if (line.command == "launch")
      tell_hosts_apart(rest);
    return;
  } else if (line.command == "help") {
    line.topic = operand;
  } else if (operand.empty() || !keep_subject(line, operand)) {
    return;
  }
  if (!operand.empty())
    rest.erase(rest.begin());
}

void refuse_unknown(const std::string& command, const Words& left) {
  Words known{"help"};
  Words elsewhere;
  for (const auto& flag : all_flags()) {
    if ((flag.commands & bit_of(command)) == 0)
      elsewhere.push_back(flag.name);
    else if (!flag.group.empty())
      known.push_back(flag.name);
  }
  for (const auto& word : left) {
    if (word.rfind('-', 0) != 0)
      continue;
    auto text = word.substr(0, word.find('='));
    auto name = text.substr(std::min(text.find_first_not_of('-'), text.size()));
    if (contains(elsewhere, name))
      throw UsageError("--" + name + " is not a flag of 'troupe " + command
                       + "'; see 'troupe " + command + " --help'"
                       + (command == "launch" || command == "chaos"
                            ? "; those of the job come after -- train"
                            : ""));
    throw UsageError("unknown flag " + text
                     + did_you_mean(meant(name, known, foreign_flags()), "--")
                     + " (see 'troupe " + command + " --help')");
  }
  if (!left.empty())
    throw UsageError("unexpected argument " + left.front()
                     + "; flags begin with --, see 'troupe " + command
                     + " --help'");
}

std::string one_line(std::string text) {
  std::replace(text.begin(), text.end(), '\n', ' ');
  return text;
}

/// What CLI11 fills while it parses.
struct Slots {
  std::map<std::string, std::string> values;
  std::map<std::string, CLI::Option*> options;
  std::set<std::string> worded; ///< toggles that may be given a word
};

void declare(CLI::App& app, const std::string& command, Slots& slots) {
  for (const auto& flag : all_flags()) {
    if ((flag.commands & bit_of(command)) == 0)
      continue;
    auto name = "--" + flag.name;
    slots.options[flag.name] = flag.type == FlagType::toggle
                                 ? app.add_flag(name)
                                 : app.add_option(name,
                                                  slots.values[flag.name]);
    if (flag.type != FlagType::toggle) // a second one is refused below
      slots.options[flag.name]->take_all();
  }
  for (const auto& flag : all_flags())
    if (flag.type == FlagType::toggle && !flag.value.empty())
      slots.worded.insert(flag.name);
  for (const auto& later : later_flags())
    app.add_option(std::string{"--"} + later.name, slots.values[later.name])
      ->expected(0, 1);
}

} // namespace

CommandLine parse_command_line(const Words& arguments) {
  auto rest = arguments;
  auto line = take_command(rest);
  const bool asks = !rest.empty() && is_help(rest.front());
  if (!asks)
    take_operand(line, rest);
  if (line.command == "help"
      || std::any_of(rest.begin(), rest.end(), is_help)) {
    if (line.command != "help")
      line.topic = line.command;
    line.command = "help";
    return line;
  }
  CLI::App app;
  app.set_help_flag();
  app.allow_extras();
  Slots slots;
  declare(app, line.command, slots);
  std::reverse(rest.begin(), rest.end()); // CLI11 takes them from the back
  try {
    app.parse(rest);
  } catch (const CLI::ParseError& mistake) {
    throw UsageError(one_line(mistake.what()) + "; see 'troupe " + line.command
                     + " --help'");
  }
  auto left = app.remaining();
  // It may stand behind the flags as well.
  if (line.role.empty() && line.flags.empty() && !left.empty()
      && left.front().rfind('-', 0) != 0 && keep_subject(line, left.front()))
    left.erase(left.begin());
  refuse_unknown(line.command, left);
  for (const auto& later : later_flags())
    if (app.count(std::string{"--"} + later.name) > 0)
      throw UsageError(std::string{"--"} + later.name
                       + " is not available yet; leave it out");
  for (const auto& [name, option] : slots.options) {
    if (option->count() == 0)
      continue;
    if (const auto& given = option->results(); given.size() > 1)
      throw UsageError("--" + name + " is given twice"
                       + (slots.values.count(name) > 0
                            ? ", as " + given[0] + " and as " + given[1]
                            : std::string{})
                       + "; leave one out");
    if (line.flags.count(name) > 0)
      throw UsageError("--" + name + ": given as " + line.flags[name]
                       + " already; leave one out");
    auto toggle = slots.values.count(name) == 0;
    line.flags[name] = !toggle                       ? slots.values[name]
                       : slots.worded.contains(name) ? option->results().front()
                                                     : "true";
  }
  return line;
}

} // namespace troupe
