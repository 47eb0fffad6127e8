#include "apps/top/keys.hpp"

#include <algorithm>

namespace troupe {
namespace {

constexpr char interrupt = '\x03';
constexpr char escape = '\x1b';
constexpr char erase = '\x7f';

/// A sequence that begins with ESC [ or ESC O, up to its last letter or '~'.
std::string_view sequence_of(std::string_view typed) {
  if (typed.size() < 2 || (typed[1] != '[' && typed[1] != 'O'))
    return typed.substr(0, 1);
  for (size_t at = 2; at < typed.size(); ++at)
    if (typed[at] >= '@' && typed[at] <= '~')
      return typed.substr(0, at + 1);
  return typed;
}

/// The selected row moves, and the table with it where it would leave the
/// screen.
void select(size_t row, const Page& page, PageOptions& options) {
  options.selected = page.rows == 0 ? 0 : std::min(row, page.rows - 1);
  if (options.selected < options.first)
    options.first = options.selected;
  if (page.room > 0 && options.selected >= options.first + page.room)
    options.first = options.selected + 1 - page.room;
}

void move(std::string_view sequence, const Page& page, PageOptions& options) {
  const auto at = options.selected;
  const auto end = sequence.substr(2);
  if (end == "A")
    select(at > 0 ? at - 1 : 0, page, options);
  else if (end == "B")
    select(at + 1, page, options);
  else if (end == "5~")
    select(at > page.room ? at - page.room : 0, page, options);
  else if (end == "6~")
    select(at + page.room, page, options);
  else if (end == "H" || end == "1~")
    select(0, page, options);
  else if (end == "F" || end == "4~")
    select(page.rows, page, options);
}

void begin(PageOptions& options) {
  options.first = options.selected = 0;
}

void ask(char letter, PageOptions& options) {
  if (letter == '\r' || letter == '\n')
    options.asks_filter = false;
  else if (letter == erase || letter == '\b')
    options.filter.resize(options.filter.empty() ? 0
                                                 : options.filter.size() - 1);
  else if (letter >= ' ')
    options.filter += letter;
  begin(options);
}

void command(char letter, View& view) {
  auto& options = view.options;
  switch (letter) {
    case 'q':
      view.quits = true;
      break;
    case 's':
      options.sort =
        static_cast<SortBy>((static_cast<size_t>(options.sort) + 1) % sorts);
      begin(options);
      break;
    case 'g':
      options.grouped = !options.grouped;
      begin(options);
      break;
    case '/':
      options.asks_filter = true;
      options.filter.clear();
      break;
    case 'l':
    case '\r':
      view.shows_log = !view.shows_log;
      break;
    case ' ':
      options.paused = !options.paused;
      break;
    default:
      break;
  }
}

} // namespace

void press(std::string_view typed, const Page& page, View& view) {
  while (!typed.empty() && !view.quits) {
    auto key = typed.substr(0, 1);
    if (key.front() == escape)
      key = sequence_of(typed);
    typed.remove_prefix(key.size());
    if (key.size() > 2) {
      move(key, page, view.options);
    } else if (key.front() == interrupt) {
      view.quits = true;
    } else if (key.front() == escape) { // alone: no filter, no log
      view.options.asks_filter = false;
      view.options.filter.clear();
      view.shows_log = false;
      begin(view.options);
    } else if (view.options.asks_filter) {
      ask(key.front(), view.options);
    } else {
      command(key.front(), view);
    }
  }
}

} // namespace troupe
