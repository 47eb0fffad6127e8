// The records of a coordinator's journal, a line each: kind, blank, body; as a
// coordinator reads them and as `troupe events` shows them.

#include "actors/journal/history.hpp"
#include "actors/journal/role_text.hpp"
#include "apps/process/event_lines.hpp"
#include "tests/fuzz/input.hpp"

#include <algorithm>
#include <sstream>

using namespace troupe;

namespace {

void show(const std::vector<JournalEvent>& events, bool json) {
  EventsOptions wanted;
  wanted.json = json;
  EventLines lines{wanted};
  for (const auto& event : events)
    fuzz::accepted([&] {
      const auto line = lines.line(event).value_or("");
      fuzz::holds(std::ranges::none_of(line,
                                       [](unsigned char c) {
                                         return c < 0x20 || c == 0x7f;
                                       }),
                  "a line steers no terminal");
    });
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::istringstream lines{fuzz::Input{data, size}.text()};
  std::vector<JournalEvent> events;
  for (std::string line; std::getline(lines, line);) {
    const auto blank = std::min(line.find(' '), line.size());
    JournalEvent event;
    event.id = events.size() + 1;
    event.term = event.id / 8 + 1;
    event.kind = line.substr(0, blank);
    event.body = line.substr(std::min(blank + 1, line.size()));
    fuzz::accepted([&] { role_from_text(event.body); });
    events.push_back(std::move(event));
  }
  show(events, false);
  show(events, true);
  fuzz::accepted([&] {
    const auto history = read_history(events);
    fuzz::holds(history.steps <= uint64_t{1} << 53, "steps can be counted");
  });
  return 0;
}
