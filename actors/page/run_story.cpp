#include "actors/page/run_story.hpp"

#include "kernels/files/shown_text.hpp"

#include <nlohmann/json.hpp>

#include <cmath>
#include <utility>

namespace troupe {
namespace {

template <class Ring, class Entry>
void put_into(Ring& ring, Entry entry) {
  ring.push_back(std::move(entry));
  if (ring.size() > RunStory::max_texts)
    ring.pop_front();
}

/// At most so many bytes of it, and only what may be shown.
std::string short_text(const std::string& text) {
  if (text.size() <= RunStory::max_text_bytes)
    return shown_text(text);
  return shown_text(text.substr(0, RunStory::max_text_bytes)) + " …";
}

} // namespace

void RunStory::add(const PagePoint& point) {
  if (told_++ % stride_ != 0)
    return;
  Point entry{++newest_, point, {}};
  if (!points_.empty()) {
    const auto& before = points_.back().point;
    if (point.unix_ms > before.unix_ms && point.samples >= before.samples)
      entry.rate = 1e3 * static_cast<double>(point.samples - before.samples)
                   / static_cast<double>(point.unix_ms - before.unix_ms);
  }
  points_.push_back(entry);
  if (points_.size() < max_points)
    return;
  std::deque<Point> half;
  for (size_t i = 0; i < points_.size(); i += 2)
    half.push_back(points_[i]);
  points_ = std::move(half);
  stride_ *= 2;
}

RunStory::Text RunStory::numbered(uint64_t unix_ms, const std::string& kind,
                                  const std::string& text) {
  return {++newest_, unix_ms, kind, short_text(text)};
}

void RunStory::add_event(uint64_t unix_ms, const std::string& kind,
                         const std::string& text) {
  put_into(events_, numbered(unix_ms, kind, text));
}

void RunStory::add_line(uint64_t unix_ms, const std::string& text) {
  put_into(lines_, numbered(unix_ms, {}, text));
}

void RunStory::tell(uint64_t seen, nlohmann::ordered_json& out) const {
  auto& points = out["points"] = nlohmann::ordered_json::array();
  for (const auto& entry : points_)
    if (entry.number > seen) {
      points.push_back(
        {entry.point.unix_ms, entry.point.step, entry.point.loss, nullptr});
      if (entry.rate)
        points.back().back() = std::round(*entry.rate);
    }
  auto& events = out["events"] = nlohmann::ordered_json::array();
  for (const auto& event : events_)
    if (event.number > seen)
      events.push_back({event.unix_ms, event.kind, event.text});
  auto& lines = out["lines"] = nlohmann::ordered_json::array();
  for (const auto& line : lines_)
    if (line.number > seen)
      lines.push_back({line.unix_ms, line.text});
}

} // namespace troupe
