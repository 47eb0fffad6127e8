#include "apps/process/summary_text.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>

namespace troupe {
namespace {

using Json = nlohmann::ordered_json;

std::string dumped(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

/// A nested value goes through itself: summaries are made here, and flat.
void append(const Json& json, const std::string& indent, std::string& out) {
  const bool has_parts =
    std::any_of(json.begin(), json.end(),
                [](const Json& part) { return part.is_structured(); });
  if (!json.is_structured() || !has_parts) {
    out += dumped(json);
    return;
  }
  const auto inner = indent + "  ";
  out += json.is_object() ? '{' : '[';
  bool first = true;
  for (const auto& [name, part] : json.items()) {
    out += (first ? "\n" : ",\n") + inner;
    if (json.is_object())
      out += dumped(Json(name)) + ": ";
    append(part, inner, out);
    first = false;
  }
  out += '\n' + indent + (json.is_object() ? '}' : ']');
}

} // namespace

std::string summary_text(const Json& summary) {
  std::string out;
  append(summary, "", out);
  return out + '\n';
}

} // namespace troupe
