#include "actors/control/guest_list.hpp"

#include <algorithm>

namespace troupe {

GuestList::Arrival GuestList::arrives(Clock::time_point now) {
  Arrival out;
  if (size() >= max_guests_)
    out.gone = room();
  out.id = ++last_;
  const auto at = silent_.insert(silent_.end(), {out.id, now + patience});
  places_[out.id] = {&silent_, at};
  return out;
}

void GuestList::spoke(Id id) {
  const auto found = places_.find(id);
  if (found == places_.end() || found->second.row == &speaking_)
    return;
  speaking_.splice(speaking_.end(), silent_, found->second.at);
  found->second.row = &speaking_;
}

void GuestList::left(Id id) {
  const auto found = places_.find(id);
  if (found == places_.end())
    return;
  found->second.row->erase(found->second.at);
  places_.erase(found);
}

std::optional<GuestList::Id> GuestList::room() {
  const auto& row = silent_.empty() ? speaking_ : silent_;
  if (row.empty())
    return std::nullopt;
  const auto id = row.front().id;
  left(id);
  return id;
}

std::vector<GuestList::Id> GuestList::late(Clock::time_point now) {
  std::vector<Id> out;
  for (const auto& guest : silent_) {
    if (guest.deadline > now)
      break; // all have the same patience
    out.push_back(guest.id);
  }
  for (const auto& guest : speaking_)
    if (guest.deadline <= now)
      out.push_back(guest.id);
  for (auto id : out)
    left(id);
  return out;
}

std::optional<GuestList::Clock::time_point> GuestList::next_deadline() const {
  std::optional<Clock::time_point> first;
  if (!silent_.empty()) // the first of them has come first
    first = silent_.front().deadline;
  for (const auto& guest : speaking_)
    first = first ? std::min(*first, guest.deadline) : guest.deadline;
  return first;
}

} // namespace troupe
