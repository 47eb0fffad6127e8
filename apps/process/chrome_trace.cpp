#include "apps/process/chrome_trace.hpp"

#include "apps/process/flight_lines.hpp"
#include "kernels/files/atomic_file.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <limits>
#include <span>

namespace troupe {
namespace {

using TraceJson = nlohmann::ordered_json;

double microseconds(int64_t ns) {
  return static_cast<double>(ns) / 1e3;
}

/// Of a flight's clock, in Unix nanoseconds.
int64_t unix_ns(const Flight& flight, uint64_t ns) {
  return static_cast<int64_t>(ns) + flight.to_unix_ns;
}

/// Names that viewers show: of a process, or of a track in it.
TraceJson name_of(const char* what, size_t process, size_t track,
                  const std::string& name) {
  return {{"ph", "M"},
          {"name", what},
          {"pid", process},
          {"tid", track},
          {"args", {{"name", name}}}};
}

} // namespace

std::string chrome_trace(const std::vector<Flight>& flights) {
  auto first = std::numeric_limits<int64_t>::max();
  for (const auto& flight : flights)
    if (!flight.spans.empty())
      first = std::min(first, unix_ns(flight, flight.spans.front().begin_ns));
  auto events = TraceJson::array();
  for (size_t process = 0; process < flights.size(); ++process) {
    const auto& flight = flights[process];
    events.push_back(name_of("process_name", process, 0,
                             flight.role + " (" + flight.host + ", "
                               + std::to_string(flight.process) + ')'));
    for (size_t track = 0; track < activities; ++track)
      events.push_back(name_of("thread_name", process, track,
                               to_string(static_cast<Activity>(track))));
    for (const auto& span : flight.spans) {
      TraceJson event{
        {"ph", "X"},
        {"name", to_string(span.activity)},
        {"pid", process},
        {"tid", static_cast<size_t>(span.activity)},
        {"ts", microseconds(unix_ns(flight, span.begin_ns) - first)},
        {"dur",
         microseconds(static_cast<int64_t>(span.end_ns - span.begin_ns))}};
      if (span.step > 0)
        event["args"]["step"] = span.step;
      if (span.activity >= Activity::forward
          && span.activity <= Activity::backward_weights)
        event["args"]["virtual_rank"] = span.detail;
      events.push_back(std::move(event));
    }
  }
  return TraceJson{{"displayTimeUnit", "ms"},
                   {"traceEvents", std::move(events)}}
    .dump(-1, ' ', false, TraceJson::error_handler_t::replace);
}

std::string draw_timeline(const std::string& folder, const std::string& file) {
  const auto flights = read_flights(flight_folder(folder));
  const auto text = chrome_trace(flights.all);
  write_atomically(file, {std::as_bytes(std::span{text})});
  size_t spans = 0;
  for (const auto& flight : flights.all)
    spans += flight.spans.size();
  return "timeline " + file + ": " + std::to_string(spans) + " spans of "
         + std::to_string(flights.all.size()) + " processes and actors"
         + (flights.passed_over == 0
              ? ""
              : ", without " + std::to_string(flights.passed_over)
                  + " files that are none");
}

} // namespace troupe
