#include "apps/process/flight_lines.hpp"

#include "apps/process/event_lines.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <limits>

namespace troupe {
namespace {

using LineJson = nlohmann::ordered_json;

double seconds_of(const FlightSecond& second, size_t activity) {
  return static_cast<double>(second.ns[activity]) * 1e-9;
}

/// "compute 61%, pull 20%": of the second; several threads may be busy.
std::string shares(const FlightSecond& second) {
  std::string out;
  for (size_t i = 0; i < activities; ++i)
    if (second.ns[i] > 0) {
      const auto percent = std::lround(100 * seconds_of(second, i));
      out += (out.empty() ? "" : ", ")
             + std::string{to_string(static_cast<Activity>(i))} + ' '
             + (percent == 0 ? "<1" : std::to_string(percent)) + '%';
    }
  return out.empty() ? "less than can be measured" : out;
}

std::string steps(const FlightSecond& second) {
  if (second.last_step == 0)
    return "";
  auto out = std::to_string(second.first_step);
  if (second.last_step != second.first_step)
    out = "s " + out + '-' + std::to_string(second.last_step);
  else
    out = ' ' + out;
  return "step" + out + ": ";
}

std::string as_text(const FlightSeconds& life, const FlightSecond& second) {
  char who[96];
  std::snprintf(who, sizeof who, "  %-10s %7llu  ", life.flight.role.c_str(),
                static_cast<unsigned long long>(life.flight.process));
  return wall_clock(life.unix_ms(second)) + who + steps(second)
         + shares(second);
}

std::string as_json(const FlightSeconds& life, const FlightSecond& second) {
  LineJson did = LineJson::object();
  for (size_t i = 0; i < activities; ++i)
    if (second.ns[i] > 0)
      did[to_string(static_cast<Activity>(i))] = seconds_of(second, i);
  return LineJson{
    {"unix_ms", life.unix_ms(second)}, {"role", life.flight.role},
    {"process", life.flight.process},  {"host", life.flight.host},
    {"first_step", second.first_step}, {"last_step", second.last_step},
    {"seconds", std::move(did)}}
    .dump(-1, ' ', true, LineJson::error_handler_t::replace);
}

} // namespace

std::vector<std::string> flight_lines(const std::vector<FlightSeconds>& all,
                                      const EventsOptions& wanted) {
  // Shards and readers know no steps: what they did since then counts.
  auto since = std::numeric_limits<uint64_t>::max();
  for (const auto& life : all)
    for (const auto& second : life.seconds)
      if (second.last_step >= wanted.since_step)
        since = std::min(since, life.unix_ms(second));
  std::vector<std::string> out;
  for (const auto& life : all) {
    if (!wanted.role.empty() && life.flight.role != wanted.role)
      continue;
    for (const auto& second : life.seconds)
      if (life.unix_ms(second) >= since)
        out.push_back(wanted.json ? as_json(life, second)
                                  : as_text(life, second));
  }
  return out;
}

std::string flight_folder(const std::string& folder) {
  std::error_code ignored;
  auto below = folder + "/flight";
  return std::filesystem::is_directory(below, ignored) ? below : folder;
}

} // namespace troupe
