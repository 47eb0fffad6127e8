#include "actors/job/other_flags.hpp"

#include "kernels/files/strict_json.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstddef>
#include <map>
#include <vector>

namespace troupe {
namespace {

using Json = nlohmann::json;

constexpr size_t max_flags = 3;
constexpr size_t max_value = 80; ///< characters
constexpr size_t max_depth = 16;

/// Fields of JobOptions that have another name than their flag.
const std::map<std::string, std::string>& flag_names() {
  static const std::map<std::string, std::string> names{
    {"/cut/sharding", "shard"},
    {"/data_access/cache", "data-cache"},
    {"/data_access/memory", "data-memory"},
    {"/data_access/timeout_s", "data-timeout"},
    {"/digests", "save"},
    {"/evaluates", "eval-data"},
    {"/learning_rate", "lr"},
    {"/lr/min", "min-lr"},
    {"/lr/schedule", "lr-schedule"},
    {"/resume_from", "checkpoint-dir"},
    {"/rule/kind", "optimizer"},
    {"/samples", "data"},
    {"/schedule/order", "schedule"},
    {"/shards", "ps"},
    {"/synchronisation", "async"},
  };
  return names;
}

/// `path`: of a field, "/cut/mesh/data".
std::string flag_of(const std::string& path) {
  if (const auto known = flag_names().find(path); known != flag_names().end())
    return known->second;
  std::string name = path.substr(path.rfind('/') + 1);
  for (const auto* whole : {"devices", "mesh", "sample"})
    if (path.find(std::string{"/"} + whole + '/') != std::string::npos)
      name = whole;
  if (name == "sample")
    name = "data";
  std::ranges::replace(name, '_', '-');
  return name;
}

std::string shown(const Json& value) {
  auto text = value.is_string() ? value.get<std::string>() : value.dump();
  return text.empty() ? "not given" : text;
}

/// What is known by its flag alone is not a value that was given.
std::string sentence(const std::string& path, const Json& there,
                     const Json& here) {
  const auto name = "--" + flag_of(path);
  const auto field = path.substr(1);
  const auto before = shown(there);
  const auto now = shown(here);
  const bool own = path.find('/', 1) == path.npos || field == "lr/min"
                   || field == "lr/warmup_steps";
  const bool plain = there.is_primitive() && here.is_primitive()
                     && !there.is_boolean() && !there.is_null()
                     && !here.is_null() && own && field != "samples"
                     && field != "synchronisation" && field != "resume_from"
                     && field != "strategy";
  return plain && before.size() <= max_value && now.size() <= max_value
           ? name + " is " + before + " there and " + now + " here"
           : name;
}

} // namespace

std::string other_flags(const std::string& there, const std::string& here) {
  if (kernels::nested_deeper(there, max_depth)
      || kernels::nested_deeper(here, max_depth))
    return {};
  const auto before = Json::parse(there, nullptr, false);
  const auto now = Json::parse(here, nullptr, false);
  if (!before.is_object() || !now.is_object())
    return {};
  const auto old = before.flatten();
  auto all = old;
  all.update(now.flatten());
  std::vector<std::string> found;
  std::vector<std::string> flags;
  for (const auto& [path, value] : all.items()) {
    const Json::json_pointer field{path};
    const auto one = before.contains(field) ? before.at(field) : Json{};
    const auto other = now.contains(field) ? now.at(field) : Json{};
    if (path.empty() || one == other
        || std::ranges::count(flags, flag_of(path)) > 0)
      continue;
    flags.push_back(flag_of(path));
    found.push_back(sentence(path, one, other));
  }
  std::string out;
  for (size_t i = 0; i < std::min(found.size(), max_flags); ++i)
    out += (i > 0 ? ", " : "") + found[i];
  if (found.size() > max_flags)
    out += " and " + std::to_string(found.size() - max_flags) + " more";
  return out;
}

} // namespace troupe
