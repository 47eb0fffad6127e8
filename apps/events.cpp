#include "actors/journal/journal_file.hpp"
#include "apps/commands.hpp"
#include "kernels/error.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdio>
#include <filesystem>

namespace troupe {
namespace {

using Json = nlohmann::ordered_json;
namespace fs = std::filesystem;

/// The file itself, or the newest journal of a --log-dir.
std::string journal_at(const std::string& path) {
  std::error_code failure;
  if (!fs::is_directory(path, failure))
    return path;
  fs::directory_entry newest;
  for (const auto& entry : fs::directory_iterator{path})
    if (entry.path().extension() == ".db"
        && entry.path().filename().string().starts_with("journal")
        && (newest.path().empty()
            || entry.last_write_time() > newest.last_write_time()))
      newest = entry;
  if (newest.path().empty())
    throw InputError("events: no journal*.db in " + path
                     + ": a run with --log-dir leaves one there");
  return newest.path().string();
}

std::string text_of(const Json& value) {
  return value.is_string() ? value.get<std::string>() : value.dump();
}

/// Of the kinds that say more than a list of names and values would.
std::string sentence(const std::string& kind, const Json& body) {
  const auto at = [&](const char* name) { return text_of(body.at(name)); };
  if (kind == "epoch") {
    std::string members;
    for (const auto& [role, incarnation] : body.at("members").items())
      members += ' ' + role;
    return at("epoch") + " from step " + at("version") + ", "
           + text_of(body.at("consistency").at("mode")) + ':' + members
           + (body.at("rollback").get<bool>() ? " (rollback)" : "");
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
  std::string out;
  for (const auto& [name, value] : body.items())
    if (name != "asked")
      out += (out.empty() ? "" : ", ") + name + ' ' + text_of(value);
  return out;
}

/// Which events are wanted; is shown them in order.
class Filter {
public:
  explicit Filter(const EventsOptions& wanted) : wanted_(wanted) {}

  bool passes(const JournalEvent& event, const Json& body) {
    auto step = step_;
    if (event.kind == "commits")
      step = step_ = body.value("first", uint64_t{0})
                     + body.value("count", uint64_t{0});
    else if (event.kind == "epoch")
      step = step_ = body.value("version", uint64_t{0});
    else
      step = body.value("step", step_);
    if (!wanted_.kind.empty() && event.kind != wanted_.kind)
      return false;
    if (!wanted_.role.empty() && !concerns(body))
      return false;
    return step >= wanted_.since_step;
  }

private:
  bool concerns(const Json& body) const {
    if (body.contains("members"))
      return body.at("members").contains(wanted_.role);
    return body.value("role", std::string{}) == wanted_.role;
  }

  const EventsOptions& wanted_;
  uint64_t step_ = 0; ///< that the journal has come to
};

void print(const JournalEvent& event, const Json& body, uint64_t begin_ms,
           bool json) {
  if (!json) {
    std::printf(
      "%10.3f s  term %llu  %-11s %s\n",
      (static_cast<double>(event.unix_ms) - static_cast<double>(begin_ms))
        / 1e3,
      static_cast<unsigned long long>(event.term), event.kind.c_str(),
      sentence(event.kind, body).c_str());
    return;
  }
  Json line{{"id", event.id},
            {"unix_ms", event.unix_ms},
            {"term", event.term},
            {"kind", event.kind}};
  for (const auto& [name, value] : body.items())
    line[line.contains(name) ? event.kind + '_' + name : name] = value;
  std::printf("%s\n", line.dump().c_str());
}

} // namespace

int run_events(const Settings& settings) {
  const auto path = journal_at(settings.events.path);
  const auto events = JournalFile{path, JournalFile::Open::read}.events();
  Filter filter{settings.events};
  for (const auto& event : events)
    try {
      const auto body = Json::parse(event.body);
      if (filter.passes(event, body))
        print(event, body, events.front().unix_ms, settings.events.json);
    } catch (const Json::exception&) {
      throw InputError("journal " + path + ": event " + std::to_string(event.id)
                       + " does not say what its kind says");
    }
  return 0;
}

} // namespace troupe
