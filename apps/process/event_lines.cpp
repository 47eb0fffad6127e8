#include "apps/process/event_lines.hpp"

#include "actors/journal/event_sentence.hpp"
#include "actors/journal/folding.hpp"
#include "kernels/base/error.hpp"
#include "kernels/files/shown_text.hpp"
#include "kernels/files/strict_json.hpp"

#include <cstdio>
#include <ctime>
#include <stdexcept>
#include <utility>

namespace troupe {
namespace {

using Json = EventBody;

std::string as_sentence(const JournalEvent& event, const Json& body,
                        uint64_t begin_ms) {
  char text[96];
  std::snprintf(
    text, sizeof text, "%10.3f s  term %llu  %-11s ",
    (static_cast<double>(event.unix_ms) - static_cast<double>(begin_ms)) / 1e3,
    static_cast<unsigned long long>(event.term),
    shown_text(event.kind.substr(0, 32)).c_str());
  return wall_clock(event.unix_ms) + text
         + shown_text(event_sentence(event.kind, body));
}

std::string as_json(const JournalEvent& event, const Json& body) {
  Json line{{"id", event.id},
            {"unix_ms", event.unix_ms},
            {"term", event.term},
            {"kind", event.kind}};
  for (const auto& [name, value] : body.items())
    line[line.contains(name) ? event.kind + '_' + name : name] = value;
  return line.dump(-1, ' ', true); // a terminal obeys none of its escapes
}

bool concerns(const Json& body, const std::string& role) {
  if (body.contains("members"))
    return body.at("members").contains(role);
  return body.value("role", std::string{}) == role;
}

/// The step that an event is of; none: of the one before it.
std::optional<uint64_t> step_of(const std::string& kind, const Json& body) {
  const auto number = [&](const char* name) {
    return body.value(name, uint64_t{0});
  };
  if (kind == "commits")
    return number("first") + number("count");
  if (kind == "epoch")
    return number("version");
  return std::nullopt;
}

} // namespace

std::string wall_clock(uint64_t unix_ms) {
  const auto seconds = static_cast<time_t>(unix_ms / 1000);
  tm parts{};
  char text[40];
  if (localtime_r(&seconds, &parts) == nullptr
      || std::strftime(text, sizeof text, "%F %T", &parts) == 0)
    return "no time"; // a journal may say anything
  char rest[8];
  std::snprintf(rest, sizeof rest, ".%03u",
                static_cast<unsigned>(unix_ms % 1000));
  return std::string{text} + rest;
}

namespace {

/// None: they are not two such rows, or say what no coordinator would.
std::optional<JournalEvent> both_of(const JournalEvent& earlier,
                                    const JournalEvent& later) {
  for (const auto* event : {&earlier, &later})
    if (event->kind != "commits"
        || kernels::nested_deeper(event->body, max_body_depth))
      return std::nullopt;
  try {
    return merged_commits(earlier, later);
  } catch (const std::exception&) {
    return std::nullopt; // line() says so
  }
}

} // namespace

std::vector<JournalEvent> gathered(std::vector<JournalEvent> events) {
  std::vector<JournalEvent> out;
  for (auto& event : events) {
    auto both = out.empty() ? std::nullopt : both_of(out.back(), event);
    if (both)
      out.back() = std::move(*both);
    else
      out.push_back(std::move(event));
  }
  return out;
}

std::optional<std::string> EventLines::line(const JournalEvent& event) {
  if (!began_)
    began_ = event.unix_ms;
  try {
    if (kernels::nested_deeper(event.body, max_body_depth))
      throw std::runtime_error{"it is nested too deeply"};
    const auto body = Json::parse(event.body);
    if (!body.is_object())
      throw std::runtime_error{"it is no object"};
    if (const auto step = step_of(event.kind, body))
      step_ = *step;
    const auto step = step_of(event.kind, body) ? step_
                                                : body.value("step", step_);
    if ((!wanted_.kind.empty() && event.kind != wanted_.kind)
        || (!wanted_.role.empty() && !concerns(body, wanted_.role))
        || step < wanted_.since_step)
      return std::nullopt;
    return wanted_.json ? as_json(event, body)
                        : as_sentence(event, body, *began_);
  } catch (const std::exception&) {
    throw InputError("event " + std::to_string(event.id)
                     + " does not say what its kind says");
  }
}

} // namespace troupe
