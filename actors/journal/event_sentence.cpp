#include "actors/journal/event_sentence.hpp"

#include <cstdint>

namespace troupe {
namespace {

std::string text_of(const EventBody& value) {
  return value.is_string() ? value.get<std::string>() : value.dump();
}

} // namespace

std::string event_sentence(const std::string& kind, const EventBody& body) {
  const auto at = [&](const char* name) { return text_of(body.at(name)); };
  if (kind == "epoch") {
    std::string members;
    for (const auto& [role, incarnation] : body.at("members").items())
      members += ' ' + role;
    return at("epoch") + " from step " + at("version") + ", "
           + text_of(body.at("consistency").at("mode")) + ':' + members
           + (body.at("rollback").get<bool>() ? " (rollback)" : "")
           + (body.contains("reason") ? "; " + at("reason") : "");
  }
  if (kind == "commits") {
    const auto first = body.at("first").get<uint64_t>();
    const auto count = body.at("count").get<uint64_t>();
    return "steps " + std::to_string(first) + " to "
           + std::to_string(first + count - 1) + ", loss " + at("loss");
  }
  if (kind == "death")
    return at("role") + " after step " + at("step")
           + (body.contains("phase") ? " in phase " + at("phase") : "");
  if (kind == "recovery")
    return at("kind") + ": steps go on without " + at("role") + "'s loss, "
           + std::to_string(body.at("resumed_ms").get<uint64_t>()
                            - body.at("detected_ms").get<uint64_t>())
           + " ms after it";
  if (kind == "replan")
    return at("reason");
  std::string out;
  for (const auto& [name, value] : body.items())
    if (name != "asked")
      out += (out.empty() ? "" : ", ") + name + ' ' + text_of(value);
  return out;
}

} // namespace troupe
