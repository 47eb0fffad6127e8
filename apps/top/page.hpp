#pragma once

#include "actors/page/job_watch.hpp"

#include <cstddef>
#include <deque>
#include <string>
#include <vector>

namespace troupe {

enum class SortBy : uint8_t { name, trouble, cpu, memory, compute, wait, sent };
inline constexpr size_t sorts = 7;
/// "name", "trouble", …, as --sort has them.
const char* to_string(SortBy sort);

/// How a page is looked at.
struct PageOptions {
  std::string address{}; ///< of the run's metrics
  size_t width = 80;     ///< columns
  size_t height = 24;    ///< lines; 0: as many as there are
  SortBy sort = SortBy::name;
  bool grouped = false; ///< a row a kind of role
  std::string filter{}; ///< roles and troubles that have it in them
  size_t first = 0;     ///< row at the top
  size_t selected = 0;  ///< row
  bool asks_filter = false;
  bool paused = false;
  bool color = false;
  std::string silence{}; ///< why there is no answer; empty: there is one
};

/// What is on the screen.
struct Page {
  std::vector<std::string> lines; ///< each at most `width` columns wide
  size_t rows = 0;                ///< of roles or groups, shown or not
  size_t room = 0;                ///< rows that fit
  std::string selected;           ///< the role of that row
};

/// Lays a job out. `log`: the last lines of the selected role, shown in the
/// lower half; empty: not shown. ASCII but for what roles say.
Page page_of(const JobView& job, const PageOptions& options,
             const std::deque<std::string>& log = {});

} // namespace troupe
