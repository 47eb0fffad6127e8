#include "apps/top/keys.hpp"

#include <boost/test/unit_test.hpp>

#include <cmath>

using namespace troupe;

namespace {

/// What two workers and a shard say after `step` steps.
std::vector<ScrapedValue> page_of_run(double step) {
  const auto of = [](const char* name, const char* role, double value) {
    return ScrapedValue{name, {{"role", role}}, value};
  };
  return {
    of("troupe_steps_committed_total", "coordinator", step),
    of("troupe_samples_committed_total", "coordinator", 64 * step),
    of("troupe_steps", "coordinator", 1000),
    of("troupe_training_loss", "coordinator", 0.25),
    of("process_cpu_seconds_total", "worker:10", 0.5 * step),
    of("process_resident_memory_bytes", "worker:10", 3 * 1024 * 1024),
    of("troupe_compute_duration_seconds_sum", "worker:10", 0.01 * step),
    of("troupe_compute_duration_seconds_count", "worker:10", step),
    of("troupe_compute_duration_seconds_bucket", "worker:10", 1e9),
    of("process_cpu_seconds_total", "worker:9", 0.1 * step),
    {"troupe_link_sent_bytes_total",
     {{"role", "worker:9"}, {"peer", "ps:0"}},
     1000 * step},
    {"troupe_link_sent_bytes_total",
     {{"role", "worker:9"}, {"peer", "ps:1"}},
     24 * step},
    of("troupe_shard_busy_seconds_total", "ps:0", 0.25 * step),
    {"troupe_supervised",
     {{"role", "coordinator"}, {"member", "ps:0"}, {"supervisor", "node"}},
     2},
    {"troupe_waits_for",
     {{"role", "coordinator"},
      {"waiter", "worker:9"},
      {"awaited", "ps:0"},
      {"what", "the next\x1bversion"}},
     1},
    {"troupe_members", {{"role", "coordinator"}, {"state", "expected"}}, 4},
    {"troupe_members", {{"role", "coordinator"}, {"state", "present"}}, 3},
    {"troupe_members", {{"role", "coordinator"}, {"state", "left_out"}}, 1},
    {"troupe_left_out",
     {{"role", "coordinator"}, {"member", "worker:2"}, {"reason", "silent"}},
     1},
    {"troupe_step_age_seconds",
     {{"role", "coordinator"}, {"reason", "ps:0 is silent"}},
     1.5},
    of("troupe_metrics_dropped_total", "exporter", 0),
  };
}

/// Seen twice, two seconds and two steps apart.
JobView seen_twice() {
  JobWatch watch;
  watch.look(page_of_run(100), 10);
  return watch.look(page_of_run(102), 12);
}

const RoleView& role(const JobView& job, const std::string& name) {
  for (const auto& one : job.roles)
    if (one.role == name)
      return one;
  BOOST_FAIL(name + " is not there");
  return job.roles.front();
}

bool has(const Page& page, const std::string& text) {
  for (const auto& line : page.lines)
    if (line.find(text) != std::string::npos)
      return true;
  return false;
}

/// Two workers of one kind among others, and 40 shards.
JobView large_job() {
  JobView job;
  for (int i = 0; i < 40; ++i) {
    RoleView view;
    view.role = "ps:" + std::to_string(i);
    view.cpu = 0.01 * i;
    view.sent = 1024;
    job.roles.push_back(view);
  }
  job.roles[7].awaited_by = 2;
  job.roles[8].left_out = true;
  job.roles[8].tags = {"left out: silent"};
  return job;
}

} // namespace

BOOST_AUTO_TEST_SUITE(top)

BOOST_AUTO_TEST_CASE(rates_are_over_the_reports_of_a_while) {
  const auto job = seen_twice();
  BOOST_TEST(job.step == 102);
  BOOST_TEST(job.steps_per_second == 1.0);
  BOOST_TEST(job.samples_per_second == 64.0);
  BOOST_TEST(job.eta_s() == 898.0);
  BOOST_TEST(job.late == "ps:0 is silent");
  BOOST_TEST(job.left_out == 1);
  const auto& worker = role(job, "worker:10");
  BOOST_TEST(worker.cpu == 0.5, boost::test_tools::tolerance(1e-9));
  BOOST_TEST(worker.memory == 3.0 * 1024 * 1024);
  BOOST_TEST(worker.compute_ms == 10.0, boost::test_tools::tolerance(1e-9));
  BOOST_TEST(std::isnan(worker.pull_ms));
  BOOST_TEST(role(job, "worker:9").sent == 1024.0);
  BOOST_TEST(role(job, "ps:0").busy == 0.25);
  BOOST_TEST(role(job, "ps:0").restarts == 2.0);
  BOOST_TEST(role(job, "ps:0").awaited_by == 1u);
  BOOST_TEST(role(job, "worker:9").tags.front()
             == "waits for ps:0: the next?version");
  BOOST_TEST(role(job, "worker:2").left_out);
}

// Symptom: where an answer took 50 ms, looks were more than a second apart, and
// nobody was ever late for longer than a look.
BOOST_AUTO_TEST_CASE(who_is_late_at_look_after_look_is_so_meanwhile) {
  JobWatch watch;
  watch.look(page_of_run(100), 10);
  BOOST_TEST(watch.look(page_of_run(100), 11.5).late_s == 1.5);
  BOOST_TEST(watch.look(page_of_run(100), 13).late_s == 3);
  auto well = page_of_run(101);
  for (auto& value : well)
    if (value.name == "troupe_step_age_seconds")
      value.labels["reason"] = "";
  BOOST_TEST(watch.look(well, 14.5).late.empty());
  BOOST_TEST(watch.look(page_of_run(101), 16).late_s == 0);
  BOOST_TEST(watch.look(page_of_run(101), 60).late_s == 0); // nobody looked
}

BOOST_AUTO_TEST_CASE(
  readers_are_busy_as_they_read_and_workers_wait_for_samples) {
  JobWatch watch;
  JobView job;
  for (double step : {100, 102}) {
    const auto of = [&](const char* name, const char* role, double value) {
      return ScrapedValue{name, {{"role", role}}, value * step};
    };
    job = watch.look({of("troupe_data_wait_seconds_sum", "worker:0", 0.004),
                      of("troupe_data_wait_seconds_count", "worker:0", 1),
                      of("troupe_decode_seconds_sum", "worker:0", 0.003),
                      of("troupe_decode_seconds_count", "worker:0", 1),
                      of("troupe_read_duration_seconds_sum", "reader:0", 0.5),
                      of("troupe_read_duration_seconds_count", "reader:0", 3)},
                     step - 90);
  }
  BOOST_TEST(role(job, "worker:0").data_ms == 4.0,
             boost::test_tools::tolerance(1e-9));
  BOOST_TEST(role(job, "worker:0").decode_ms == 3.0,
             boost::test_tools::tolerance(1e-9));
  BOOST_TEST(role(job, "reader:0").busy == 0.5,
             boost::test_tools::tolerance(1e-9));
  BOOST_TEST(has(page_of(job, {.address = "127.0.0.1:9"}), "50%"));
}

BOOST_AUTO_TEST_CASE(roles_stand_in_the_order_of_their_numbers) {
  std::vector<std::string> names;
  for (const auto& one : seen_twice().roles)
    names.push_back(one.role);
  const std::vector<std::string> expected{"coordinator", "ps:0", "worker:2",
                                          "worker:9", "worker:10"};
  BOOST_TEST(names == expected);
}

BOOST_AUTO_TEST_CASE(one_look_knows_no_rates) {
  JobWatch watch;
  const auto job = watch.look(page_of_run(100), 10);
  BOOST_TEST(std::isnan(job.steps_per_second));
  BOOST_TEST(std::isnan(role(job, "worker:9").cpu));
  BOOST_TEST(has(page_of(job, {}), "- steps/s"));
}

// Asked five times a second, a role that reports once a second has the rate of
// its reports, not one that is 0 four times out of five.
BOOST_AUTO_TEST_CASE(a_role_is_measured_by_its_reports) {
  JobWatch watch;
  for (int i = 0; i < 100; ++i) {
    const auto job = watch.look(page_of_run(std::floor(i / 5.0)), 0.2 * i);
    if (i > 10)
      BOOST_TEST(role(job, "worker:9").cpu == 0.1,
                 boost::test_tools::tolerance(0.01));
  }
}

BOOST_AUTO_TEST_CASE(a_role_that_stands_still_has_a_rate_of_nothing) {
  JobWatch watch;
  JobView job;
  for (int i = 0; i < 60; ++i)
    job = watch.look(page_of_run(i < 10 ? i : 10), i);
  BOOST_TEST(role(job, "worker:9").cpu == 0);
  BOOST_TEST(job.steps_per_second == 0);
}

BOOST_AUTO_TEST_CASE(who_was_awaited_lately_is_remembered_for_a_while) {
  JobWatch watch;
  const ScrapedValue reader{
    "process_cpu_seconds_total", {{"role", "reader:1"}}, 1};
  const ScrapedValue late{"troupe_step_age_seconds",
                          {{"role", "coordinator"},
                           {"reason", "reader:1 is silent for 1.0 s"}},
                          1};
  const ScrapedValue waits{"troupe_waits_for",
                           {{"role", "coordinator"},
                            {"waiter", "worker:0"},
                            {"awaited", "reader:1"},
                            {"what", "samples"}},
                           1};
  BOOST_TEST(watch.look({reader}, 1).was_late == "");
  watch.look({reader, late, waits}, 2);
  watch.look({reader, waits}, 3);
  auto job = watch.look({reader}, 4);
  BOOST_TEST(job.late == "");
  BOOST_TEST(job.was_late == "reader:1 is silent for 1.0 s");
  BOOST_TEST(role(job, "reader:1").owed_samples == 2u);
  job = watch.look({reader}, 6.5);
  BOOST_TEST(job.was_late == "");
  BOOST_TEST(role(job, "reader:1").owed_samples == 1u);
  BOOST_TEST(role(watch.look({reader}, 9), "reader:1").owed_samples == 0u);
}

BOOST_AUTO_TEST_CASE(a_process_that_is_another_one_counts_from_nothing) {
  JobWatch watch;
  watch.look(page_of_run(100), 10);
  watch.look(page_of_run(2), 12);
  const auto job = watch.look(page_of_run(4), 14);
  BOOST_TEST(job.steps_per_second == 1.0);
}

BOOST_AUTO_TEST_CASE(a_page_has_what_is_known_and_who_is_in_trouble) {
  const auto page = page_of(seen_twice(), {.address = "127.0.0.1:9"});
  BOOST_TEST(page.lines.size() == 24u);
  BOOST_TEST(page.rows == 5u);
  BOOST_TEST(has(page, "127.0.0.1:9"));
  BOOST_TEST(has(page, "step 102 of 1000"));
  BOOST_TEST(has(page, "ETA 14:58"));
  BOOST_TEST(has(page, "members 3 of 4 present, 1 left out"));
  BOOST_TEST(has(page, "the step is late, ps:0 is silent"));
  BOOST_TEST(has(page, "COMPUTE"));
  BOOST_TEST(!has(page, "PUSH"));     // nobody knows any
  BOOST_TEST(!has(page, "RESTARTS")); // the page is too narrow
  BOOST_TEST(has(page, "1 waits for it"));
  for (const auto& line : page.lines)
    BOOST_TEST(line.size() <= 80u);
}

BOOST_AUTO_TEST_CASE(a_page_is_as_large_as_the_screen) {
  for (size_t height : {1, 2, 3, 4, 5, 6, 7, 8, 10, 50, 100})
    for (size_t width : {1, 10, 80, 200})
      for (const bool log : {false, true}) {
        const auto page = page_of(large_job(),
                                  {.width = width, .height = height},
                                  std::deque<std::string>(log ? 9 : 0, "said"));
        BOOST_TEST(page.lines.size() == height);
        for (const auto& line : page.lines)
          BOOST_TEST(line.size() <= width);
      }
  const auto all = page_of(large_job(), {.width = 200, .height = 0});
  BOOST_TEST(all.lines.size() == 5u + 1 + 40);
}

// A page of fewer than eight lines had eight, and the terminal scrolled.
BOOST_AUTO_TEST_CASE(on_a_page_of_few_lines_what_says_most_stays) {
  auto job = seen_twice();
  PageOptions options{.address = "127.0.0.1:9", .height = 5};
  auto page = page_of(job, options);
  BOOST_TEST(page.lines.front().starts_with("step 102 of 1000"));
  BOOST_TEST(has(page, "the step is late"));
  BOOST_TEST(!has(page, "127.0.0.1:9"));
  BOOST_TEST(page.room == 1u);
  BOOST_TEST(has(page, "coordinator"));
  options.silence = "nobody listens";
  BOOST_TEST(page_of(job, options).lines.front().ends_with("nobody listens"));
  options.height = 1;
  BOOST_TEST(page_of(job, options).lines.front().ends_with("nobody listens"));
  options.silence.clear();
  BOOST_TEST(page_of(job, options).lines.front().starts_with("step 102"));
  job.late.clear();
  options.height = 6;
  page = page_of(job, options);
  BOOST_TEST(page.lines.front().starts_with("troupe top 127.0.0.1:9"));
  BOOST_TEST(has(page, "members 3 of 4"));
  BOOST_TEST(!has(page, "last commit"));
}

BOOST_AUTO_TEST_CASE(rows_are_sorted_filtered_and_grouped) {
  PageOptions options{.width = 200, .height = 0};
  options.sort = SortBy::cpu;
  BOOST_TEST(page_of(large_job(), options).lines.at(6).starts_with("ps:39"));
  options.sort = SortBy::trouble;
  const auto troubled = page_of(large_job(), options);
  BOOST_TEST(troubled.lines.at(6).starts_with("ps:8 "));
  BOOST_TEST(troubled.lines.at(7).starts_with("ps:7 "));
  options.filter = "left out";
  BOOST_TEST(page_of(large_job(), options).rows == 1u);
  options.filter.clear();
  options.grouped = true;
  const auto grouped = page_of(large_job(), options);
  BOOST_TEST(grouped.rows == 1u);
  BOOST_TEST(has(grouped, "ps x40"));
  BOOST_TEST(has(grouped, "780%"));     // a sum
  BOOST_TEST(has(grouped, "40.0 KiB")); // another one
  BOOST_TEST(has(grouped, "1 left out; ps:7 is waited for"));
}

BOOST_AUTO_TEST_CASE(keys_change_how_a_page_is_looked_at) {
  View view;
  view.options.height = 20;
  auto page = page_of(large_job(), view.options);
  press("s", page, view);
  BOOST_TEST(to_string(view.options.sort) == std::string{"trouble"});
  press("g", page, view);
  BOOST_TEST(view.options.grouped);
  press("g ", page, view);
  BOOST_TEST(!view.options.grouped);
  BOOST_TEST(view.options.paused);
  press("/ps:1q\x7f\r", page, view);
  BOOST_TEST(view.options.filter == "ps:1");
  BOOST_TEST(!view.options.asks_filter);
  press("\x1b", page, view);
  BOOST_TEST(view.options.filter.empty());
  press("l", page, view);
  BOOST_TEST(view.shows_log);
  BOOST_TEST(!view.quits);
  press("q", page, view);
  BOOST_TEST(view.quits);
}

BOOST_AUTO_TEST_CASE(the_selected_row_stays_on_the_screen) {
  View view;
  view.options.height = 20;
  auto page = page_of(large_job(), view.options);
  BOOST_TEST(page.room == 13u);
  press("\x1b[B\x1b[B", page, view);
  BOOST_TEST(view.options.selected == 2u);
  BOOST_TEST(view.options.first == 0u);
  press("\x1b[6~", page, view);
  BOOST_TEST(view.options.selected == 15u);
  page = page_of(large_job(), view.options);
  BOOST_TEST(page.selected == "ps:15");
  BOOST_TEST(has(page, "ps:15"));
  press("\x1b[F\x1b[B", page, view);
  BOOST_TEST(view.options.selected == 39u);
  press("\x1b[H", page, view);
  BOOST_TEST(view.options.first == 0u);
  press("\x1b[", page, view); // half a sequence
  press("\x1bOA\x01", page, view);
  BOOST_TEST(view.options.selected == 0u);
}

BOOST_AUTO_TEST_CASE(the_log_has_the_lower_half) {
  const auto page = page_of(large_job(), {.height = 30},
                            {"first", "second", "last"});
  BOOST_TEST(page.lines.size() == 30u);
  BOOST_TEST(has(page, "log of ps:0"));
  BOOST_TEST(has(page, "last"));
  BOOST_TEST(page.room == 12u);
}

BOOST_AUTO_TEST_SUITE_END()
