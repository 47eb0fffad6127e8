#pragma once

#include "actors/page/page_feed.hpp"

#include <nlohmann/json_fwd.hpp>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>

namespace troupe {

/// What happened in a run as its page and its report show it: the curves of all
/// of it, coarser the longer it is, and the newest events and lines. Everything
/// has a number, so that who has seen a part asks for the rest. Owner: whoever
/// locks it.
class RunStory {
public:
  static constexpr size_t max_points = 600;
  static constexpr size_t max_texts = 200; ///< events, and lines
  static constexpr size_t max_text_bytes = 400;
  static constexpr size_t max_whole_points = 300; ///< of tell_whole()
  static constexpr size_t max_whole_events = 100; ///< the same

  /// Of any number of points, in order, those are kept that lie far enough
  /// apart.
  void add(const PagePoint& point);
  void add_event(uint64_t unix_ms, const std::string& kind,
                 const std::string& text);
  void add_line(uint64_t unix_ms, const std::string& text);

  uint64_t newest() const { return newest_; } ///< number; 0: nothing yet
  /// What has a number above `seen`, as fields of an object: points as [Unix
  /// ms, step, loss, samples a second since the point before], events and lines
  /// as [Unix ms, kind, text] and [Unix ms, text].
  void tell(uint64_t seen, nlohmann::ordered_json& out) const;
  /// The whole run, shorter, as fields of its summary: `curve`, an object of
  /// columns `seconds` (since `begin_ms`), `step`, `loss` and
  /// `samples_per_second` (since the point before), up to the newest point; and
  /// `events`, the newest ones. Numbers have six digits.
  void tell_whole(uint64_t begin_ms, nlohmann::ordered_json& out) const;

private:
  struct Point {
    uint64_t number;
    PagePoint point;
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
  uint64_t spacing_ms_ = 20; ///< between two of them, at least
  uint64_t set_back_ms_ = 0; ///< so far has the machine's clock been
  std::optional<PagePoint> newest_point_; ///< kept or not
  std::deque<Text> events_;
  std::deque<Text> lines_;
};

} // namespace troupe
