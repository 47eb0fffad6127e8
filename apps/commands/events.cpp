#include "actors/journal/journal_file.hpp"
#include "apps/process/event_lines.hpp"
#include "apps/settings/commands.hpp"
#include "kernels/base/error.hpp"

#include <cstdio>
#include <filesystem>
#include <utility>

namespace troupe {
namespace {

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

} // namespace

int run_events(const Settings& settings) {
  const auto path = journal_at(settings.events.path);
  auto events = JournalFile{path, JournalFile::Open::read}.events();
  if (settings.events.kind.empty() && !settings.events.json)
    events = gathered(std::move(events));
  EventLines lines{settings.events};
  for (const auto& event : events)
    try {
      if (const auto line = lines.line(event))
        std::printf("%s\n", line->c_str());
    } catch (const InputError& failure) {
      throw InputError("journal " + path + ": " + failure.what());
    }
  return 0;
}

} // namespace troupe
