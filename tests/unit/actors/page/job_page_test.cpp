#include "actors/page/job_json.hpp"
#include "actors/page/job_page.hpp"
#include "actors/page/page_text.hpp"
#include "actors/page/scraped_value.hpp"
#include "actors/page/story_feed.hpp"

#include <boost/test/unit_test.hpp>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <set>

using namespace troupe;

BOOST_AUTO_TEST_SUITE(job_page)

namespace {

using Snapshot = nlohmann::ordered_json;

MetricSample gauge(const char* name, MetricLabels labels, double value) {
  MetricSample out;
  out.name = name;
  out.labels = std::move(labels);
  out.value = value;
  return out;
}

std::vector<MetricSample> samples_of_run() {
  auto times = gauge("troupe_compute_duration_seconds", {{"role", "worker:0"}},
                     0);
  times.kind = MetricSample::Kind::histogram;
  times.bounds = {1};
  times.cumulative = {3, 4};
  times.sum = 2.5;
  return {gauge("troupe_training_loss", {{"role", "coordinator"}}, 0.123456),
          gauge("troupe_steps_committed_total", {{"role", "coordinator"}}, 12),
          gauge("troupe_waits_for",
                {{"role", "coordinator"},
                 {"waiter", "worker:0"},
                 {"awaited", "ps:0"},
                 {"what", "the <next> version"}},
                1),
          times};
}

/// A page, and what is asked of it.
struct Served {
  explicit Served(uint64_t term = 1, std::vector<std::string> others = {})
    : page(JobPage::Options{7,
                            term,
                            "mlp:</script>\xff",
                            "mirrored",
                            [this] {
                              ++reads;
                              return samples_of_run();
                            },
                            {},
                            std::move(others)},
           feed) {}

  WebAnswer get(const std::string& path, const std::string& query = {}) {
    for (const auto& one : page.pages())
      if (one.path == path)
        return one.make(query);
    BOOST_FAIL(path + " is not served");
    return {};
  }
  Snapshot snapshot(const std::string& after = {}) {
    return Snapshot::parse(
      get("/snapshot", after.empty() ? after : "after=" + after).body);
  }

  int reads = 0;
  std::shared_ptr<StoryFeed> feed = std::make_shared<StoryFeed>();
  JobPage page;
};

struct KeptEvents : JournalSink {
  std::vector<JournalEvent> all;
  void append(JournalEvent event, std::function<void()> synced) override {
    all.push_back(std::move(event));
    if (synced)
      synced();
  }
  bool leads() const override { return false; }
};

} // namespace

BOOST_AUTO_TEST_CASE(a_snapshot_says_what_a_job_is_and_does) {
  Served served;
  served.feed->set_members(
    {{"worker:0", "10.0.0.1", true, 12}, {"worker:1", "", false, 0}});
  served.feed->add_point({5000, 12, 768, 0.5});
  served.feed->add_line("metrics: somewhere");
  const auto all = served.snapshot();
  BOOST_TEST(all["run"]["job"] == "0000000000000007");
  BOOST_TEST(all["run"]["model"] == "mlp:</script>\xEF\xBF\xBD");
  BOOST_TEST(all["run"]["activities"][0] == "compute");
  BOOST_TEST(all["now"]["step"] == 12.0);
  BOOST_TEST(all["now"]["loss"] == 0.1235);
  BOOST_TEST(all["now"]["steps_per_second"].is_null());
  BOOST_TEST(all["spans"].is_null());
  BOOST_TEST(all["points"].size() == 1u);
  BOOST_TEST(all["lines"][0][1] == "metrics: somewhere");
  const auto& roles = all["now"]["roles"];
  BOOST_REQUIRE(roles.size() == 4u);
  BOOST_TEST(roles[1]["role"] == "ps:0");
  BOOST_TEST(roles[1]["awaited_by"] == 1u);
  BOOST_TEST(roles[2]["role"] == "worker:0");
  BOOST_TEST(roles[2]["host"] == "10.0.0.1");
  BOOST_TEST(roles[2]["present"] == true);
  BOOST_TEST(roles[2]["silent_ms"] == 12u);
  BOOST_TEST(roles[2]["tags"][0] == "waits for ps:0: the <next> version");
  BOOST_TEST(roles[3]["role"] == "worker:1");
  BOOST_TEST(roles[3]["present"] == false);
}

BOOST_AUTO_TEST_CASE(a_cursor_brings_only_what_is_new) {
  Served served{3};
  const auto& feed = served.feed;
  feed->add_line("first");
  const auto cursor = served.snapshot()["cursor"].get<std::string>();
  BOOST_TEST(cursor == "3.1");
  BOOST_TEST(served.snapshot(cursor)["lines"].empty());
  feed->add_line("second");
  const auto next = served.snapshot(cursor);
  BOOST_TEST(next["lines"].size() == 1u);
  BOOST_TEST(next["lines"][0][1] == "second");
  // Those of another coordinator, of a future, and what is none: all.
  for (const auto* other : {"2.1", "3.99", "", "x", "3", "3.", "3.1x", ".1",
                            "99999999999999999999.1"})
    BOOST_TEST(served.snapshot(other)["lines"].size() == 2u, other);
}

BOOST_AUTO_TEST_CASE(
  however_many_ask_metrics_are_gathered_a_few_times_a_second) {
  Served served;
  for (int i = 0; i < 200; ++i)
    served.snapshot();
  BOOST_TEST(served.reads < 100);
  BOOST_TEST(served.reads > 0);
}

BOOST_AUTO_TEST_CASE(events_are_shown_and_go_on_to_the_journal) {
  Served served;
  const auto own = std::make_shared<KeptEvents>();
  const auto shown = served.feed->shown(own);
  bool synced = false;
  shown->append({0, 5000, 1, "restart",
                 R"({"role":"worker:0","how":"restart 1 of 5"})"},
                [&] { synced = true; });
  shown->append({0, 5001, 1, "commits", R"({"first":0})"}, {});
  shown->append({0, 5002, 1, "epoch", "not what an epoch says"}, {});
  BOOST_TEST(synced);
  BOOST_TEST(own->all.size() == 3u);
  BOOST_TEST(!shown->leads());
  const auto events = served.snapshot()["events"];
  BOOST_REQUIRE(events.size() == 2u);
  BOOST_TEST(events[0].dump()
             == R"([5000,"restart","role worker:0, how restart 1 of 5"])");
  BOOST_TEST(events[1][2] == "not what an epoch says");
}

BOOST_AUTO_TEST_CASE(without_a_journal_events_are_shown_all_the_same) {
  Served served;
  const auto shown = served.feed->shown(nullptr);
  bool synced = false;
  shown->append({0, 1, 1, "joined", R"({"role":"ps:1"})"},
                [&] { synced = true; });
  BOOST_TEST(synced);
  BOOST_TEST(shown->leads());
  BOOST_TEST(served.snapshot()["events"].size() == 1u);
}

BOOST_AUTO_TEST_CASE(a_snapshot_of_a_large_job_is_bounded) {
  JobView job;
  std::vector<PageMember> members;
  for (int i = 0; i < 2000; ++i) {
    RoleView role;
    role.role = "worker:" + std::to_string(i);
    role.cpu = 0.123456789;
    role.memory = 123456789;
    role.compute_ms = role.pull_ms = role.push_ms = 12.3456789;
    job.roles.push_back(role);
    members.push_back({role.role, "10.0.0.1", true, 100});
  }
  const auto json = job_json(job, members);
  BOOST_TEST(json["roles"].size() == max_shown_roles);
  BOOST_TEST(json["roles_not_shown"] == 2000 - max_shown_roles);
  BOOST_TEST(json["roles"][0]["memory"] == 123456789.0);
  BOOST_TEST(json["roles"][0]["cpu"] == 0.1235);
  BOOST_TEST(json.dump().size() < 200'000u);
}

BOOST_AUTO_TEST_CASE(the_page_is_small_and_asks_nobody_else) {
  const std::string page = page_text;
  BOOST_TEST(page.size() < 150u << 10);
  BOOST_TEST(page.starts_with("<!DOCTYPE html>"));
  BOOST_TEST(page.ends_with("</html>\n"));
  // The name of SVG is one and no address that is asked.
  for (auto at = page.find("://"); at != page.npos;
       at = page.find("://", at + 1))
    BOOST_TEST(page.substr(at - 4, 21) == "http://www.w3.org/200");
}

BOOST_AUTO_TEST_CASE(only_the_page_s_own_script_may_run) {
  Served served{1, {"http://10.0.0.2:9400"}};
  std::set<std::string> nonces;
  for (int i = 0; i < 3; ++i) {
    const auto answer = served.get("/");
    const std::string before = "script-src 'nonce-";
    const auto at = answer.headers.find(before);
    BOOST_REQUIRE(at != answer.headers.npos);
    const auto nonce = answer.headers.substr(at + before.size(), 32);
    nonces.insert(nonce);
    for (const auto* part : {"<script nonce=\"", "<style nonce=\""})
      BOOST_TEST(answer.body.find(part + nonce + '"') != answer.body.npos);
    BOOST_TEST(answer.body.find("NONCE") == answer.body.npos);
    BOOST_TEST(answer.headers.find("default-src 'none'")
               != answer.headers.npos);
    BOOST_TEST(answer.headers.find("connect-src 'self' http://10.0.0.2:9400;")
               != answer.headers.npos);
    BOOST_TEST(answer.headers.find("unsafe") == answer.headers.npos);
  }
  BOOST_TEST(nonces.size() == 3u);
}

BOOST_AUTO_TEST_CASE(histograms_are_their_sums_and_counts) {
  const auto values = values_of(samples_of_run());
  BOOST_REQUIRE(values.size() == 5u);
  BOOST_TEST(values[3].name == "troupe_compute_duration_seconds_sum");
  BOOST_TEST(values[3].value == 2.5);
  BOOST_TEST(values[4].name == "troupe_compute_duration_seconds_count");
  BOOST_TEST(values[4].value == 4.0);
  BOOST_TEST(label_of(values[4], "role") == "worker:0");
}

BOOST_AUTO_TEST_SUITE_END()
