#include "actors/journal/folding.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <iterator>
#include <optional>
#include <utility>

namespace troupe {
namespace {

using OrderedJson = nlohmann::ordered_json;

size_t count_of(const std::vector<JournalEvent>& events, const char* kind) {
  return static_cast<size_t>(
    std::ranges::count(events, kind, &JournalEvent::kind));
}

/// Makes one of each two rows between which nothing but evaluations lies.
std::vector<JournalEvent> halved_commits(std::vector<JournalEvent> events) {
  std::vector<JournalEvent> out;
  std::optional<size_t> partner; // its place in `out`
  for (auto& event : events) {
    if (event.kind == "commits" && partner) {
      auto both = merged_commits(out[*partner], event);
      if (both) {
        out.erase(out.begin() + static_cast<std::ptrdiff_t>(*partner));
        event = std::move(*both);
        partner.reset();
      } else {
        partner = out.size();
      }
    } else if (event.kind == "commits") {
      partner = out.size();
    } else if (event.kind != "evaluation") {
      partner.reset();
    }
    out.push_back(std::move(event));
  }
  return out;
}

/// The newest one stays.
std::vector<JournalEvent> halved_evaluations(std::vector<JournalEvent> events) {
  std::vector<JournalEvent> out;
  auto left = count_of(events, "evaluation");
  for (auto& event : events)
    if (event.kind != "evaluation" || --left % 2 == 0)
      out.push_back(std::move(event));
  return out;
}

} // namespace

std::optional<JournalEvent> merged_commits(const JournalEvent& earlier,
                                           const JournalEvent& later) {
  const auto begin = OrderedJson::parse(earlier.body);
  auto body = OrderedJson::parse(later.body);
  const auto first = begin.at("first").get<uint64_t>();
  const auto count = begin.at("count").get<uint64_t>();
  if (first + count != body.at("first").get<uint64_t>()
      || earlier.term != later.term)
    return std::nullopt;
  body["first"] = first;
  body["count"] = count + body.at("count").get<uint64_t>();
  auto out = later;
  out.body = body.dump();
  return out;
}

std::vector<JournalEvent> folded(std::vector<JournalEvent> events,
                                 FoldLimits limits) {
  if (events.size() <= limits.newest)
    return events;
  const auto border = events.end() - static_cast<std::ptrdiff_t>(limits.newest);
  std::vector<JournalEvent> old{std::make_move_iterator(events.begin()),
                                std::make_move_iterator(border)};
  std::vector<JournalEvent> newest{std::make_move_iterator(border),
                                   std::make_move_iterator(events.end())};
  while (count_of(old, "evaluation") > limits.most)
    old = halved_evaluations(std::move(old));
  for (auto before = old.size() + 1;
       count_of(old, "commits") > limits.most && old.size() < before;) {
    before = old.size();
    old = halved_commits(std::move(old));
  }
  std::ranges::move(newest, std::back_inserter(old));
  return old;
}

std::vector<JournalEvent>
folded_until(uint64_t id, std::vector<JournalEvent> events, FoldLimits limits) {
  const auto border = std::ranges::upper_bound(events, id, {},
                                               &JournalEvent::id);
  std::vector<JournalEvent> newer{std::make_move_iterator(border),
                                  std::make_move_iterator(events.end())};
  events.erase(border, events.end());
  auto out = folded(std::move(events), limits);
  std::ranges::move(newer, std::back_inserter(out));
  return out;
}

} // namespace troupe
