#include "actors/journal/journal_file.hpp"
#include "apps/process/event_lines.hpp"
#include "apps/process/flight_lines.hpp"
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

/// What roles recorded; files that are none are told.
int show_flights(const Settings& settings) {
  const auto flights = read_all_flight_seconds(flight_folder(settings.flight));
  for (const auto& line : flight_lines(flights.all, settings.events))
    std::printf("%s\n", line.c_str());
  if (flights.passed_over > 0)
    std::fprintf(stderr, "%s: %zu files named .flight are none\n",
                 settings.flight.c_str(), flights.passed_over);
  return 0;
}

} // namespace

int run_events(const Settings& settings) {
  if (!settings.flight.empty())
    return show_flights(settings);
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
