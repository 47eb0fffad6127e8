#include "actors/journal/folding.hpp"
#include "actors/journal/history.hpp"
#include "actors/journal/job_journal.hpp"

#include <boost/test/unit_test.hpp>

#include <memory>
#include <string>
#include <vector>

using namespace troupe;

BOOST_AUTO_TEST_SUITE(folding)

namespace {

class Kept : public JournalSink {
public:
  void append(JournalEvent event, std::function<void()> synced) override {
    event.id = events.size() + 1;
    events.push_back(std::move(event));
    if (synced)
      synced();
  }
  std::vector<JournalEvent> events;
};

/// A run of `commits` rows of ten steps, with an evaluation after every fourth
/// and a new epoch after every hundredth.
std::vector<JournalEvent> journal(uint64_t commits) {
  const auto sink = std::make_shared<Kept>();
  JobJournal out{sink, 1};
  out.job(7, "{}");
  out.began(false, [] {});
  out.address("here:1", "", "");
  for (uint64_t i = 0; i < commits; ++i) {
    if (i % 100 == 0) {
      EpochRow row;
      row.epoch = 1 + i / 100;
      row.version = 10 * i;
      out.epoch(row, [] {});
    }
    for (uint64_t step = 10 * i; step < 10 * i + 10; ++step)
      out.committed(step);
    RunCounts counts;
    counts.samples = i;
    out.flush(counts);
    if (i % 4 == 3)
      out.evaluated(10 * i, 5, {{"loss", static_cast<double>(i)}});
  }
  return sink->events;
}

size_t count(const std::vector<JournalEvent>& events, const char* kind) {
  size_t out = 0;
  for (const auto& event : events)
    out += event.kind == kind ? 1 : 0;
  return out;
}

} // namespace

BOOST_AUTO_TEST_CASE(a_folded_journal_has_the_same_history) {
  const auto whole = journal(1'000);
  const auto less = folded(whole, {100, 40});
  const auto wanted = read_history(whole);
  const auto found = read_history(less);
  BOOST_TEST(found.job == wanted.job);
  BOOST_TEST(found.steps == 10'000u);
  BOOST_TEST(found.epoch == wanted.epoch);
  BOOST_TEST(found.counts.samples == wanted.counts.samples);
  BOOST_TEST(found.evaluation == wanted.evaluation);
  BOOST_TEST(count(less, "epoch") == count(whole, "epoch"));
  BOOST_TEST(less.size() < 250u);
  BOOST_TEST(less.back().id == whole.back().id);
}

BOOST_AUTO_TEST_CASE(rows_that_became_one_have_all_their_steps) {
  uint64_t next = 0;
  uint64_t id = 0;
  for (const auto& event : folded(journal(1'000), {100, 40})) {
    BOOST_TEST(event.id > id);
    id = event.id;
    if (event.kind != "commits")
      continue;
    const auto history = read_history({event});
    const auto first = event.body.find("\"first\":" + std::to_string(next));
    BOOST_TEST(first != std::string::npos);
    next = history.steps;
  }
  BOOST_TEST(next == 10'000u);
}

BOOST_AUTO_TEST_CASE(it_is_as_long_for_ten_times_the_steps) {
  const auto rows = [](uint64_t commits) {
    const auto events = folded(journal(commits), {100, 40});
    return events.size() - count(events, "epoch");
  };
  BOOST_TEST(rows(10'000) <= rows(1'000) + 100);
  const auto brief = journal(20);
  BOOST_TEST(folded(brief).size() == brief.size());
}

BOOST_AUTO_TEST_SUITE_END()
