// The records of a coordinator's journal, a line each: kind, blank, body.

#include "actors/journal/history.hpp"
#include "actors/journal/role_text.hpp"
#include "tests/fuzz/input.hpp"

#include <sstream>

using namespace troupe;

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
  fuzz::accepted([&] { read_history(events); });
  return 0;
}
