#include "actors/page/run_story.hpp"

#include "kernels/files/shown_text.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
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

/// Samples a second; nullopt: not known, as where steps were undone.
std::optional<double> rate_between(const PagePoint* before,
                                   const PagePoint& point) {
  if (before == nullptr || point.unix_ms <= before->unix_ms
      || point.samples < before->samples)
    return {};
  return 1e3 * static_cast<double>(point.samples - before->samples)
         / static_cast<double>(point.unix_ms - before->unix_ms);
}

/// Null: it is not finite.
nlohmann::ordered_json six_digits(double value) {
  if (!std::isfinite(value))
    return nullptr;
  char text[32];
  std::snprintf(text, sizeof text, "%.6g", value);
  return std::strtod(text, nullptr);
}

} // namespace

void RunStory::add(const PagePoint& told) {
  auto point = told;
  point.unix_ms += set_back_ms_;
  if (newest_point_ && point.unix_ms < newest_point_->unix_ms) {
    set_back_ms_ += newest_point_->unix_ms - point.unix_ms;
    point.unix_ms = newest_point_->unix_ms;
  }
  newest_point_ = point;
  if (!points_.empty()
      && point.unix_ms < points_.back().point.unix_ms + spacing_ms_)
    return;
  points_.push_back({++newest_, point});
  if (points_.size() < max_points)
    return;
  const auto first = points_.front().point.unix_ms;
  spacing_ms_ = std::max(2 * spacing_ms_,
                         (point.unix_ms - first) / (max_points / 2));
  std::deque<Point> apart;
  for (const auto& entry : points_)
    if (apart.empty()
        || entry.point.unix_ms >= apart.back().point.unix_ms + spacing_ms_)
      apart.push_back(entry);
  points_ = std::move(apart);
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
  const PagePoint* before = nullptr;
  for (const auto& [number, point] : points_) {
    if (number > seen) {
      points.push_back({point.unix_ms, point.step, point.loss, nullptr});
      if (const auto rate = rate_between(before, point))
        points.back().back() = std::round(*rate);
    }
    before = &point;
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

void RunStory::tell_whole(uint64_t begin_ms,
                          nlohmann::ordered_json& out) const {
  const auto seconds = [&](uint64_t unix_ms) {
    return (static_cast<double>(unix_ms) - static_cast<double>(begin_ms)) / 1e3;
  };
  using Json = nlohmann::ordered_json;
  out["curve"] = {{"seconds", Json::array()},
                  {"step", Json::array()},
                  {"loss", Json::array()},
                  {"samples_per_second", Json::array()}};
  auto& curve = out["curve"];
  const PagePoint* before = nullptr;
  const auto show = [&](const PagePoint& point) {
    curve["seconds"].push_back(seconds(point.unix_ms));
    curve["step"].push_back(point.step);
    curve["loss"].push_back(six_digits(point.loss));
    const auto rate = rate_between(before, point);
    curve["samples_per_second"].push_back(rate ? six_digits(*rate) : Json{});
    before = &point;
  };
  const auto every = (points_.size() + max_whole_points - 2)
                     / (max_whole_points - 1);
  for (size_t i = 0; i < points_.size(); i += every)
    show(points_[i].point);
  if (newest_point_
      && (newest_point_->step != before->step
          || newest_point_->unix_ms != before->unix_ms))
    show(*newest_point_);
  auto& events = out["events"] = Json::array();
  for (auto i = events_.size() - std::min(events_.size(), max_whole_events);
       i < events_.size(); ++i)
    events.push_back({{"seconds", seconds(events_[i].unix_ms)},
                      {"kind", events_[i].kind},
                      {"text", events_[i].text}});
}

} // namespace troupe
