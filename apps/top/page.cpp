#include "apps/top/page.hpp"

#include "apps/terminal/columns.hpp"
#include "apps/terminal/short_numbers.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <functional>
#include <map>

namespace troupe {
namespace {

constexpr auto reverse = "\x1b[7m";
constexpr auto red = "\x1b[31m";
constexpr auto yellow = "\x1b[33m";
constexpr auto bold = "\x1b[1m";
constexpr auto plain = "\x1b[0m";

/// A column of the table; what nobody knows a value of is left out.
struct Column {
  const char* name;
  int width;
  double RoleView::*value;
  std::string (*text)(double);
  bool sums; ///< a group shows the sum, else the mean
};

std::string percent(double value) {
  if (!std::isfinite(value))
    return "-";
  return std::to_string(std::lround(100 * value)) + '%';
}

std::string decimal(double value) {
  if (!std::isfinite(value))
    return "-";
  char text[32];
  std::snprintf(text, sizeof text, value < 100 ? "%.1f" : "%.0f", value);
  return text;
}

std::string whole(double value) {
  return std::isfinite(value) ? std::to_string(std::lround(value)) : "-";
}

constexpr std::array columns{
  Column{"CPU", 6, &RoleView::cpu, percent, true},
  Column{"MEMORY", 9, &RoleView::memory, short_bytes, true},
  Column{"COMPUTE", 8, &RoleView::compute_ms, decimal, false},
  Column{"PULL", 7, &RoleView::pull_ms, decimal, false},
  Column{"PUSH", 7, &RoleView::push_ms, decimal, false},
  Column{"REDUCE", 7, &RoleView::reduce_ms, decimal, false},
  Column{"BUSY", 6, &RoleView::busy, percent, false},
  Column{"SENT/s", 9, &RoleView::sent, short_bytes, true},
  Column{"RECV/s", 9, &RoleView::received, short_bytes, true},
  Column{"QUEUED", 9, &RoleView::queued, short_bytes, true},
  Column{"RESTARTS", 9, &RoleView::restarts, whole, true},
};

size_t trouble_of(const RoleView& role) {
  return (role.left_out ? 1000 : 0) + 10 * role.awaited_by + role.tags.size();
}

std::string state_of(const RoleView& role) {
  std::string out;
  if (role.awaited_by > 0)
    out = std::to_string(role.awaited_by)
          + (role.awaited_by == 1 ? " waits for it" : " wait for it");
  for (const auto& tag : role.tags)
    out += (out.empty() ? "" : "; ") + tag;
  return out;
}

/// Rows of a kind as one: sums, or means of those that are known.
RoleView group_of(const std::string& kind,
                  const std::vector<const RoleView*>& members) {
  RoleView out;
  out.role = kind + " x" + std::to_string(members.size());
  for (const auto& column : columns) {
    double sum = 0;
    size_t count = 0;
    for (const auto* member : members)
      if (std::isfinite(member->*column.value)) {
        sum += member->*column.value;
        ++count;
      }
    if (count > 0)
      out.*column.value = column.sums ? sum : sum / static_cast<double>(count);
  }
  size_t left_out = 0;
  const RoleView* awaited = nullptr;
  for (const auto* member : members) {
    left_out += member->left_out ? 1 : 0;
    if (member->awaited_by > 0
        && (awaited == nullptr || member->awaited_by > awaited->awaited_by))
      awaited = member;
  }
  if (left_out > 0)
    out.tags.push_back(std::to_string(left_out) + " left out");
  out.left_out = left_out > 0;
  if (awaited != nullptr)
    out.tags.push_back(awaited->role + " is waited for");
  return out;
}

std::vector<RoleView> grouped(const std::vector<RoleView>& roles) {
  std::map<std::string, std::vector<const RoleView*>> kinds;
  for (const auto& role : roles)
    kinds[kind_of(role.role)].push_back(&role);
  std::vector<RoleView> out;
  for (const auto& [kind, members] : kinds)
    out.push_back(members.size() == 1 ? *members.front()
                                      : group_of(kind, members));
  return out;
}

double weight_of(const RoleView& role, SortBy sort) {
  const auto known = [](double value) {
    return std::isfinite(value) ? value : -1;
  };
  switch (sort) {
    case SortBy::cpu:
      return known(role.cpu);
    case SortBy::memory:
      return known(role.memory);
    case SortBy::compute:
      return known(role.compute_ms);
    case SortBy::wait:
      return std::max(
        {known(role.pull_ms), known(role.push_ms), known(role.reduce_ms)});
    case SortBy::sent:
      return known(role.sent);
    case SortBy::trouble:
      return static_cast<double>(trouble_of(role));
    case SortBy::name:
      break;
  }
  return 0;
}

std::string right(const std::string& text, int width) {
  const auto room = static_cast<size_t>(width);
  const auto own = columns_of(text);
  return std::string(room > own ? room - own : 0, ' ') + text;
}

std::string left(const std::string& text, size_t width) {
  const auto own = columns_of(text);
  return text + std::string(width > own ? width - own : 0, ' ');
}

class Layout {
public:
  Layout(const PageOptions& options) : options_(options) {}

  /// A line, cut to the page, in a style that a terminal with colours shows.
  void add(const std::string& text, const char* style = nullptr) {
    const auto fits = cut_to(options_.width, text);
    page.lines.push_back(
      options_.color && style != nullptr ? style + fits + plain : fits);
  }

  /// What is known of the job as a whole: of its lines the `room` that say
  /// most, as on a page of few lines the others give way.
  void head(const JobView& job, size_t room) {
    char loss[32];
    std::snprintf(loss, sizeof loss, std::isfinite(job.loss) ? "%.4f" : "-",
                  job.loss);
    const bool answers = options_.silence.empty();
    const bool whole_job = job.left_out == 0 && job.present >= job.expected;
    struct Line {
      std::string text;
      const char* style;
      int rank; ///< those with the least stay
    };
    const std::array lines{
      Line{"troupe top " + options_.address
             + (options_.paused ? "  PAUSED" : "")
             + (answers ? "" : "  no answer: " + options_.silence),
           answers ? bold : red, answers ? 4 : 0},
      Line{"step " + whole(job.step)
             + (std::isfinite(job.steps) ? " of " + whole(job.steps) : "")
             + "  ETA " + short_duration(job.eta_s()) + "  loss " + loss + "  "
             + short_number(job.steps_per_second) + " steps/s  "
             + short_number(job.samples_per_second) + " samples/s  data epoch "
             + whole(job.data_epoch),
           nullptr, 1},
      Line{"members " + whole(job.present) + " of " + whole(job.expected)
             + " present, " + whole(job.left_out) + " left out  restarts "
             + whole(job.restarts) + "  membership epoch "
             + whole(job.membership_epoch),
           whole_job ? nullptr : yellow, whole_job ? 5 : 3},
      Line{"last commit " + decimal(job.since_commit_s) + " s ago"
             + (job.late.empty() ? "" : ": the step is late, " + job.late),
           job.late.empty() ? nullptr : red, job.late.empty() ? 6 : 2},
      Line{"", nullptr, 7}};
    for (const auto& line : lines) {
      const auto before = std::ranges::count_if(lines, [&](const Line& x) {
        return x.rank < line.rank;
      });
      if (static_cast<size_t>(before) < room)
        add(line.text, line.style);
    }
  }

  /// The table's rows, of which as many as fit from `first` on.
  void table(const std::vector<RoleView>& rows, size_t room) {
    size_t names = 4;
    for (const auto& row : rows)
      names = std::max(names, columns_of(row.role));
    std::vector<const Column*> shown;
    for (const auto& column : columns)
      if (std::ranges::any_of(rows, [&](const RoleView& row) {
            return std::isfinite(row.*column.value);
          }))
        shown.push_back(&column);
    // STATE is what one looks for: on a narrow page the last columns give way.
    constexpr size_t for_state = 24;
    auto taken = names + for_state;
    for (const auto* column : shown)
      taken += static_cast<size_t>(column->width);
    for (; taken > options_.width && !shown.empty(); shown.pop_back())
      taken -= static_cast<size_t>(shown.back()->width);
    auto names_line = left("ROLE", names);
    for (const auto* column : shown)
      names_line += right(column->name, column->width);
    add(names_line + "  STATE", reverse);
    const auto end = std::min(rows.size(), options_.first + room);
    for (auto at = options_.first; at < end; ++at) {
      const auto& row = rows[at];
      auto line = left(row.role, names);
      for (const auto* column : shown)
        line += right(column->text(row.*column->value), column->width);
      const auto state = state_of(row);
      line += state.empty() ? "" : "  " + state;
      add(line, row.left_out              ? red
                : row.awaited_by > 0      ? yellow
                : at == options_.selected ? bold
                                          : nullptr);
      if (at == options_.selected && options_.height > 0)
        page.selected = row.role;
    }
  }

  Page page;

private:
  const PageOptions& options_;
};

} // namespace

const char* to_string(SortBy sort) {
  constexpr const char* names[] = {"name",    "trouble", "cpu", "memory",
                                   "compute", "wait",    "sent"};
  static_assert(std::size(names) == sorts);
  return names[static_cast<size_t>(sort)];
}

Page page_of(const JobView& job, const PageOptions& options,
             const std::deque<std::string>& log) {
  auto rows = options.grouped ? grouped(job.roles) : job.roles;
  if (!options.filter.empty())
    std::erase_if(rows, [&](const RoleView& row) {
      return row.role.find(options.filter) == std::string::npos
             && state_of(row).find(options.filter) == std::string::npos;
    });
  if (options.sort != SortBy::name)
    std::ranges::stable_sort(rows, std::greater{}, [&](const RoleView& row) {
      return weight_of(row, options.sort);
    });
  Layout layout{options};
  constexpr size_t around = 2;         // the table's head, the line at the foot
  constexpr size_t least = around + 1; // and a row
  const bool all = options.height == 0;
  const auto height = all ? std::string::npos : options.height;
  layout.head(job, height > least ? height - least : 1);
  auto room = rows.size();
  size_t for_log = 0;
  if (!all) {
    const auto used = layout.page.lines.size() + around;
    const auto left_over = height > used ? height - used : 0;
    for_log = log.empty() ? 0 : left_over / 2;
    room = left_over - for_log;
  }
  layout.page.rows = rows.size();
  layout.page.room = room;
  if (all || room > 0)
    layout.table(rows, room);
  if (for_log > 0) {
    layout.add("-- log of " + layout.page.selected + " --", reverse);
    const auto lines = for_log - 1;
    const auto first = log.size() > lines ? log.size() - lines : 0;
    for (auto at = first; at < log.size(); ++at)
      layout.add(log[at]);
  }
  if (all || layout.page.lines.size() >= height)
    return std::move(layout.page);
  while (layout.page.lines.size() + 1 < height)
    layout.add("");
  layout.add(options.asks_filter
               ? "filter: " + options.filter + '_'
               : "q quit  s sort (" + std::string{to_string(options.sort)}
                   + ")  g group  / filter"
                   + (options.filter.empty() ? "" : " (" + options.filter + ')')
                   + "  l log  space pause  " + std::to_string(rows.size())
                   + " rows",
             reverse);
  return std::move(layout.page);
}

} // namespace troupe
