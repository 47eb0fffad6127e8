#include "actors/voting/log_folding.hpp"

namespace troupe {

LogShape shape_of(const std::vector<JournalEvent>& events) {
  LogShape out;
  if (events.empty())
    return out;
  auto first = events.size() - 1;
  while (first > 0 && events[first - 1].id + 1 == events[first].id)
    --first;
  if (events[first].id != 1) {
    out.base = {events[first].term, events[first].id};
    ++first;
  }
  for (; first < events.size(); ++first)
    out.terms.push_back(events[first].term);
  return out;
}

} // namespace troupe
