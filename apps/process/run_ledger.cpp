#include "apps/process/run_ledger.hpp"

#include "apps/process/summary_text.hpp"
#include "kernels/base/error.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>

namespace troupe {
namespace {

RoleLife life_of(const Flight& flight) {
  auto out = life_of(flight.spans, flight.to_unix_ns);
  // A recorder that is full writes over its oldest.
  out.whole = flight.spans.size() < FlightRecorder::capacity;
  if (flight.earlier) {
    auto earlier = *flight.earlier;
    earlier.span.begin += flight.to_unix_ns;
    earlier.span.end += flight.to_unix_ns;
    out.earlier = earlier;
  }
  return out;
}

double seconds(int64_t ns) {
  return static_cast<double>(ns) / 1e9;
}

} // namespace

std::map<std::string, TimeLedger> ledgers_of(const std::vector<Flight>& flights,
                                             TimeSpan run, bool all_came) {
  std::map<std::string, std::vector<const Flight*>> roles;
  // What the newest life on a host knows, by host.
  std::map<std::string, std::map<std::string, EarlierTime>> before;
  for (const auto& flight : flights) {
    if (!flight.spans.empty())
      roles[flight.role].push_back(&flight);
    if (const auto& lives = flight.lives_before)
      if (auto& known = before[flight.role][flight.host];
          lives->span.end > known.span.end)
        known = *lives;
  }
  std::map<std::string, TimeLedger> out;
  for (auto& [role, own] : roles) {
    std::ranges::sort(own, {}, [](const Flight* x) {
      return static_cast<int64_t>(x->spans.front().begin_ns) + x->to_unix_ns;
    });
    std::vector<RoleLife> lives;
    for (const auto* flight : own)
      lives.push_back(life_of(*flight));
    if (!all_came)
      lives.front().whole = false;
    for (const auto& [host, known] : before[role]) {
      // Some of them, or all, may have been of an earlier run.
      RoleLife gone;
      gone.earlier = known;
      if (known.span.begin >= run.begin)
        lives.push_back(std::move(gone));
      else if (known.span.end > run.begin)
        lives.front().whole = false;
    }
    out[role] = time_ledger(lives, run);
  }
  return out;
}

std::string with_ledger(const std::string& summary, const std::string& folder,
                        TimeSpan run, bool all_came) {
  if (folder.empty() || summary.empty())
    return summary;
  Flights flights;
  try {
    flights = read_flights(folder);
  } catch (const InputError&) {
    return summary; // nobody got as far as to record anything
  }
  nlohmann::ordered_json roles = nlohmann::ordered_json::object();
  for (const auto& [role, ledger] : ledgers_of(flights.all, run, all_came))
    for (size_t cause = 0; cause < time_causes; ++cause)
      roles[role][to_string(static_cast<TimeCause>(cause))] =
        seconds(ledger[cause]);
  auto json = nlohmann::ordered_json::parse(summary);
  json["ledger"] = {{"seconds", seconds(run.end - run.begin)},
                    {"roles", std::move(roles)}};
  return summary_text(json);
}

} // namespace troupe
