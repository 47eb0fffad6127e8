#include "apps/process/run_files.hpp"

#include "actors/page/run_report.hpp"
#include "apps/process/run_ledger.hpp"
#include "apps/process/summary_text.hpp"
#include "apps/settings/flags.hpp"
#include "apps/terminal/shell_word.hpp"
#include "kernels/base/error.hpp"
#include "kernels/files/atomic_file.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <functional>
#include <span>
#include <string_view>

namespace troupe {
namespace {

/// A word as a shell reads it back, bare where it may be.
std::string readable_word(const std::string& word) {
  constexpr std::string_view plain =
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+=:,./@%";
  if (!word.empty() && word.find_first_not_of(plain) == word.npos)
    return word;
  return shell_word(word);
}

/// What was given, by flags, file or environment, as flags. Those that have no
/// place in a file, such as a token, are not in it.
std::string command_of(const Settings& settings) {
  auto out = "troupe " + settings.command;
  if (settings.role)
    out += ' ' + to_string(*settings.role);
  for (const auto& flag : all_flags()) {
    if (!flag.get || !settings.given.contains(flag.name)
        || (flag.commands & bit_of(settings.command)) == 0)
      continue;
    const auto value = flag.get(settings);
    if (value.empty())
      continue;
    out += " --" + flag.name;
    if (flag.type != FlagType::toggle)
      out += ' ' + readable_word(value);
    else if (value != "true")
      out += '=' + value;
  }
  return out;
}

/// Where it cannot be done, status and line of the result say so.
void write(const char* what, const std::string& path,
           const std::function<std::string()>& make, RunResult& result) {
  if (path.empty())
    return;
  try {
    const auto text = make();
    write_atomically(path, {std::as_bytes(std::span{text})});
  } catch (const InputError& failure) {
    result.status = std::max(result.status, 1);
    result.line += std::string{"; no "} + what + ": " + failure.what();
  }
}

} // namespace

void write_run_files(const Settings& settings, const std::string& flight,
                     TimeSpan run, RunResult& result) {
  if (result.summary.empty()
      || (settings.summary.empty() && settings.report.empty()))
    return;
  auto json = nlohmann::ordered_json::parse(result.summary);
  json["command"] = command_of(settings);
  result.summary = with_ledger(summary_text(json), flight, run,
                               result.all_recorded);
  write(
    "summary", settings.summary, [&] { return result.summary; }, result);
  write(
    "report", settings.report, [&] { return run_report(result.summary); },
    result);
}

} // namespace troupe
