#include "actors/page/job_page.hpp"

#include "actors/journal/job_journal.hpp"
#include "actors/page/job_json.hpp"
#include "actors/page/nonce.hpp"
#include "actors/page/page_text.hpp"
#include "actors/page/recent_spans.hpp"
#include "actors/page/story_feed.hpp"
#include "actors/process/flight_recorder.hpp"
#include "actors/process/steady_ms.hpp"
#include "actors/wire/version.hpp"

#include <nlohmann/json.hpp>

#include <charconv>
#include <cstdio>
#include <optional>
#include <utility>

namespace troupe {
namespace {

constexpr uint64_t view_period_ms = 250;
constexpr uint64_t spans_period_ms = 1'000;
/// Who has not looked for so long begins anew: its means would be of a time
/// that nobody watched.
constexpr uint64_t longest_pause_ms = 5'000;
constexpr size_t max_shown_spans = 2'000;
constexpr auto html_headers = "Content-Type: text/html; charset=utf-8\r\n";
constexpr auto json_headers = "Content-Type: application/json\r\n";
constexpr auto common_headers = "Cache-Control: no-store\r\n"
                                "X-Content-Type-Options: nosniff\r\n"
                                "Referrer-Policy: no-referrer\r\n";

std::string hexadecimal(uint64_t number) {
  char text[17];
  std::snprintf(text, sizeof text, "%016llx",
                static_cast<unsigned long long>(number));
  return text;
}

WebAnswer page_answer(const std::vector<std::string>& others) {
  const auto nonce = random_nonce();
  const auto own = "'nonce-" + nonce + '\'';
  std::string connections = "'self'";
  for (const auto& other : others)
    connections += ' ' + other;
  return {html_headers + std::string{common_headers}
            + "Content-Security-Policy: default-src 'none'; script-src " + own
            + "; style-src " + own + "; img-src data:; connect-src "
            + connections
            + "; base-uri 'none'; form-action 'none'; frame-ancestors "
              "'none'\r\n",
          with_nonce(page_text, nonce)};
}

/// T and N of "after=T.N" in a query.
std::optional<std::pair<uint64_t, uint64_t>> cursor_in(std::string_view query) {
  constexpr std::string_view name = "after=";
  if (!query.starts_with(name))
    return {};
  const auto* end = query.data() + query.size();
  std::pair<uint64_t, uint64_t> out;
  const auto term = std::from_chars(query.data() + name.size(), end, out.first);
  if (term.ec != std::errc{} || term.ptr == end || *term.ptr != '.')
    return {};
  const auto number = std::from_chars(term.ptr + 1, end, out.second);
  if (number.ec != std::errc{} || number.ptr != end)
    return {};
  return out;
}

/// Bytes that are not UTF-8 are replaced: whatever a job is called, this is
/// JSON.
std::string dumped(const nlohmann::ordered_json& json) {
  return json.dump(-1, ' ', false,
                   nlohmann::ordered_json::error_handler_t::replace);
}

nlohmann::ordered_json names_of_activities() {
  auto out = nlohmann::ordered_json::array();
  for (size_t i = 0; i < activities; ++i)
    out.push_back(to_string(static_cast<Activity>(i)));
  return out;
}

} // namespace

// --- what browsers ask for: the server's thread -----------------------------

struct JobPage::Snapshots {
  Options options;
  std::shared_ptr<StoryFeed> feed;
  std::string run;  // JSON, as the next two
  std::string view; // of the last look
  std::string spans = "null";
  JobWatch watch;
  std::optional<uint64_t> looked_ms; // steady
  std::optional<uint64_t> spans_ms;  // the same

  Snapshots(Options with, std::shared_ptr<StoryFeed> from)
    : options(std::move(with)), feed(std::move(from)) {
    run = dumped({{"job", hexadecimal(options.job_id)},
                  {"term", options.term},
                  {"model", options.model},
                  {"strategy", options.strategy},
                  {"version", version},
                  {"others", options.others},
                  {"activities", names_of_activities()}});
  }

  void look() {
    const auto now = steady_ms();
    if (looked_ms && now - *looked_ms < view_period_ms)
      return;
    if (looked_ms && now - *looked_ms > longest_pause_ms)
      watch = {};
    looked_ms = now;
    view = dumped(job_json(watch.look(values_of(options.read()),
                                      static_cast<double>(now) / 1e3),
                           feed->members()));
    if (options.flight.empty()
        || (spans_ms && now - *spans_ms < spans_period_ms))
      return;
    spans_ms = now;
    spans = dumped(recent_spans(options.flight, max_shown_spans));
  }

  std::string snapshot(std::string_view query) {
    look();
    const auto cursor = cursor_in(query);
    nlohmann::ordered_json story;
    feed->read([&](const RunStory& all) {
      const auto newest = all.newest();
      const bool ours = cursor && cursor->first == options.term
                        && cursor->second <= newest;
      story["cursor"] = std::to_string(options.term) + '.'
                        + std::to_string(newest);
      story["unix_ms"] = unix_ms();
      all.tell(ours ? cursor->second : 0, story);
    });
    auto out = dumped(story);
    out.back() = ','; // the object goes on
    return out + "\"run\":" + run + ",\"now\":" + view + ",\"spans\":" + spans
           + '}';
  }
};

JobPage::JobPage(Options options, std::shared_ptr<StoryFeed> feed)
  : others_(options.others) {
  snapshots_ = std::make_shared<Snapshots>(std::move(options), std::move(feed));
}

JobPage::~JobPage() = default;

std::vector<WebPage> JobPage::pages() const {
  return {
    {"/", [others = others_](std::string_view) { return page_answer(others); }},
    {"/snapshot", [snapshots = snapshots_](std::string_view query) {
       return WebAnswer{json_headers + std::string{common_headers},
                        snapshots->snapshot(query)};
     }}};
}

} // namespace troupe
