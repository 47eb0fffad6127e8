#pragma once

#include "actors/page/page_feed.hpp"

#include <nlohmann/json_fwd.hpp>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>

namespace troupe {

/// What happened in a run as its page shows it: the curves of all of it,
/// coarser the longer it is, and the newest events and lines. Everything has a
/// number, so that who has seen a part asks for the rest. Owner: whoever locks
/// it.
class RunStory {
public:
  static constexpr size_t max_points = 600;
  static constexpr size_t max_texts = 200; ///< events, and lines
  static constexpr size_t max_text_bytes = 400;

  void add(const PagePoint& point);
  void add_event(uint64_t unix_ms, const std::string& kind,
                 const std::string& text);
  void add_line(uint64_t unix_ms, const std::string& text);

  uint64_t newest() const { return newest_; } ///< number; 0: nothing yet
  /// What has a number above `seen`, as fields of an object: points as [Unix
  /// ms, step, loss, samples a second since the point before], events and lines
  /// as [Unix ms, kind, text] and [Unix ms, text].
  void tell(uint64_t seen, nlohmann::ordered_json& out) const;

private:
  struct Point {
    uint64_t number;
    PagePoint point;
    std::optional<double> rate; ///< samples a second
  };
  struct Text {
    uint64_t number;
    uint64_t unix_ms;
    std::string kind;
    std::string text;
  };

  Text numbered(uint64_t unix_ms, const std::string& kind,
                const std::string& text);

  uint64_t newest_ = 0;
  std::deque<Point> points_;
  uint64_t stride_ = 1; ///< one in so many is kept
  uint64_t told_ = 0;   ///< points, kept or not
  std::deque<Text> events_;
  std::deque<Text> lines_;
};

} // namespace troupe
