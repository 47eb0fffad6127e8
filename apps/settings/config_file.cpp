#include "apps/settings/config_file.hpp"

#include "apps/settings/flags.hpp"
#include "apps/settings/foreign_flags.hpp"
#include "apps/terminal/numbers.hpp"
#include "kernels/base/error.hpp"
#include "kernels/base/suggestion.hpp"
#include "kernels/files/input_file.hpp"

#include <toml++/toml.h>

#include <algorithm>
#include <sstream>

// Beside apps/chaos/plan_file.cpp the one place that knows toml++.

namespace troupe {

namespace {

constexpr uint64_t largest_file = uint64_t{1} << 20;

toml::table parsed(const std::string& path) {
  try {
    return toml::parse(whole_file(path, largest_file, "a configuration file"),
                       path);
  } catch (const toml::parse_error& mistake) {
    throw UsageError(path + ":" + std::to_string(mistake.source().begin.line)
                     + ": not valid TOML: " + std::string{mistake.description()}
                     + " (text stands in quotes)");
  }
}

const Flag& flag_of(const std::string& key, const std::string& where,
                    const std::vector<Flag>& flags) {
  for (const auto& later : later_flags())
    if (key == later.name)
      throw UsageError(where + ": " + key
                       + " is not available yet; leave it out");
  std::vector<std::string> known;
  for (const auto& flag : flags) {
    if (!flag.get)
      continue;
    if (flag.name == key)
      return flag;
    known.push_back(flag.name);
  }
  auto near = meant(key, known, foreign_flags());
  throw UsageError(where + ": unknown key " + key
                   + (near.empty() ? "; see 'troupe train --help'"
                                   : "; did you mean " + near + "?"));
}

/// The value as the flag would be given; empty for a toggle that is off.
std::string value_of(const toml::node& node, const Flag& flag,
                     const std::string& where) {
  auto toggle = flag.type == FlagType::toggle;
  if (auto value = node.value_exact<bool>(); value && toggle)
    return *value ? "true" : "";
  if (toggle && flag.value.empty())
    throw UsageError(where + ": " + flag.name + ": expected true or false");
  if (auto value = node.value_exact<std::string>())
    return *value;
  if (auto value = node.value_exact<int64_t>())
    return std::to_string(*value);
  if (auto value = node.value_exact<double>())
    return print_real(*value);
  throw UsageError(where + ": " + flag.name
                   + ": expected a string or a number");
}

std::string quoted(const std::string& text) {
  std::ostringstream out;
  out << toml::value<std::string>{text};
  return out.str();
}

/// Larger whole numbers than TOML's are written as text.
std::string literal(const Flag& flag, const std::string& text) {
  if (flag.type == FlagType::toggle && text == "true")
    return text;
  auto digits = text.find_first_not_of("0123456789") == std::string::npos;
  const bool range = text.find(':') != std::string::npos;
  if (flag.type == FlagType::text || range || (digits && text.size() > 18))
    return quoted(text);
  return text;
}

} // namespace

std::map<std::string, ConfigValue> read_config(const std::string& path) {
  auto table = parsed(path);
  auto flags = all_flags();
  std::map<std::string, ConfigValue> values;
  for (const auto& [name, node] : table) {
    std::string key{name.str()};
    std::replace(key.begin(), key.end(), '_', '-');
    auto where = path + ":" + std::to_string(node.source().begin.line);
    if (node.is_table())
      throw UsageError(where + ": [" + key
                       + "] begins a table; keys stand without one");
    const auto& flag = flag_of(key, where, flags);
    auto text = value_of(node, flag, where);
    if (text.empty())
      continue;
    if (!values.emplace(key, ConfigValue{text, where}).second)
      throw UsageError(where + ": " + key + " is there twice; keep one");
  }
  return values;
}

std::string to_toml(const Settings& settings, TomlPart part) {
  std::string out;
  std::string group;
  for (const auto& flag : all_flags()) {
    auto value = flag.get ? flag.get(settings) : std::string{};
    if (value.empty())
      continue;
    if (flag.group != group) {
      out += (out.empty() ? "# " : "\n# ") + flag.group + '\n';
      group = flag.group;
    }
    if (part == TomlPart::given && !settings.given.contains(flag.name))
      out += "# ";
    out += flag.name + " = " + literal(flag, value) + '\n';
  }
  return out;
}

} // namespace troupe
