#include "actors/page/job_watch.hpp"
#include "apps/process/scrape.hpp"
#include "apps/settings/commands.hpp"
#include "apps/terminal/console.hpp"
#include "apps/terminal/interrupt.hpp"
#include "apps/top/keys.hpp"
#include "apps/top/log_tail.hpp"
#include "apps/top/scraper.hpp"
#include "apps/top/screen.hpp"

#include <chrono>
#include <csignal>
#include <cstdio>

namespace troupe {
namespace {

using namespace std::chrono_literals;

constexpr auto frame = 200ms;
/// A role reports once a second, and in a run that just began not at once.
constexpr auto several_reports = 4500ms;
constexpr int status_of_signal = 128;

View first_view(const Settings& settings) {
  View view;
  view.options.address = settings.metrics_address;
  view.options.filter = settings.top.filter;
  view.options.grouped = settings.top.grouped;
  view.options.color = settings.color;
  for (size_t i = 0; i < sorts; ++i)
    if (settings.top.sort == to_string(static_cast<SortBy>(i)))
      view.options.sort = static_cast<SortBy>(i);
  view.shows_log = !settings.log_dir.empty();
  return view;
}

/// One page as text, with all rows.
int print_once(const Settings& settings, const ScrapeCredentials& credentials) {
  auto view = first_view(settings);
  view.options.color = false;
  view.options.height = 0;
  view.options.width = std::string::npos;
  const auto job = watch_for(settings.metrics_address, credentials,
                             several_reports);
  for (const auto& line : page_of(job, view.options).lines)
    std::printf("%s\n", line.c_str());
  return 0;
}

/// Until a key or a signal ends it, or the run has.
int show(const Settings& settings, const ScrapeCredentials& credentials) {
  // A first answer, or one line and no screen.
  scrape(settings.metrics_address, credentials);
  auto view = first_view(settings);
  std::string last_line;
  int signal = 0;
  {
    Screen screen; // before there is another thread: it holds signals back
    Scraper scraper{settings.metrics_address, credentials};
    JobWatch watch;
    JobView job;
    Page page;
    while (!view.quits && signal == 0) {
      auto seen = scraper.take();
      if (!seen.values.empty() && !view.options.paused)
        job = watch.look(seen.values, seen.at_s);
      view.options.silence = seen.why;
      if (seen.is_over) {
        last_line = "no answer any more at step "
                    + std::to_string(static_cast<uint64_t>(job.step)) + ": "
                    + seen.why;
        break;
      }
      view.options.width = screen.width();
      view.options.height = screen.height();
      const auto log = view.shows_log
                         ? log_tail(settings.log_dir, page.selected)
                         : std::deque<std::string>{};
      page = page_of(job, view.options, log);
      screen.draw(page.lines);
      const auto event = screen.wait(frame);
      signal = event.signal;
      press(event.typed, page, view);
    }
  }
  if (!last_line.empty())
    std::printf("%s\n", last_line.c_str());
  return signal == 0 ? 0 : status_of_signal + signal;
}

} // namespace

int run_top(const Settings& settings) {
  const auto credentials = scrape_credentials(settings);
  if (settings.top.once || !Console::redraws(stdout)) {
    let_signals_go();
    return print_once(settings, credentials);
  }
  return show(settings, credentials);
}

} // namespace troupe
