#include "strategies/silence_watch.hpp"

#include <boost/test/unit_test.hpp>

#include <algorithm>

using namespace troupe;

BOOST_AUTO_TEST_SUITE(silence_watch)

namespace {

constexpr RoleId worker0{RoleKind::worker, 0};
constexpr RoleId shard1{RoleKind::shard, 1};
constexpr uint64_t tick_ms = 100;
constexpr uint64_t period_ms = 250;

/// Two members whose signs come `late_ms` later than they should, as far as
/// the test says; time goes on by ticks.
struct Job {
  SilenceWatch watch{{}, 1'000};
  uint64_t now = 1'000;
  uint64_t next = 1'000; ///< sign of worker:0
  bool stopped = false;  ///< worker:0
  std::vector<SilenceWatch::Silent> silent;

  Job() {
    watch.joined(worker0, now);
    watch.joined(shard1, now);
  }

  void pass(uint64_t ms, uint64_t late_ms = 0) {
    for (const auto end = now + ms; now < end; now += tick_ms) {
      watch.heard(shard1, now);
      if (!stopped && now >= next) {
        watch.heard(worker0, now);
        next = now + period_ms + late_ms;
      }
      for (const auto& x : watch.tick(now))
        silent.push_back(x);
    }
  }

  /// Milliseconds from now until worker:0 counts as silent.
  uint64_t until_silent() {
    stopped = true;
    const auto begin = now;
    while (silent.empty() && now < begin + 20'000)
      pass(tick_ms);
    return now - begin;
  }
};

} // namespace

BOOST_AUTO_TEST_CASE(at_a_quiet_pace_a_second_of_silence_is_enough) {
  Job job;
  job.pass(60'000);
  BOOST_TEST(job.silent.empty());
  BOOST_TEST(job.until_silent() <= 1'200u);
  BOOST_TEST((job.silent.front().role == worker0));
  BOOST_TEST(job.silent.front().reason
             == "silent for 1.1 s, more than the 1.0 s that may be");
  BOOST_TEST(job.silent.size() == 1u);
}

BOOST_AUTO_TEST_CASE(the_first_seconds_are_given_more_time) {
  Job job;
  job.pass(1'000);
  const auto ms = job.until_silent();
  BOOST_TEST(ms >= 1'700u);
  BOOST_TEST(ms <= 2'200u);
}

BOOST_AUTO_TEST_CASE(pauses_that_come_again_and_again_are_no_end) {
  for (uint64_t late_ms : {300, 700, 1'500}) {
    Job job;
    // They grow as load does.
    for (uint64_t late = 0; late < late_ms; late += 100)
      job.pass(3'000, late);
    job.pass(120'000, late_ms);
    BOOST_TEST(job.silent.empty());
  }
}

BOOST_AUTO_TEST_CASE(a_pause_of_300_ms_out_of_the_blue_is_no_end) {
  Job job;
  job.pass(120'000);
  job.pass(period_ms, 300);
  job.pass(60'000);
  BOOST_TEST(job.silent.empty());
}

BOOST_AUTO_TEST_CASE(where_all_are_late_more_silence_is_borne_but_not_any) {
  Job job;
  for (uint64_t late : {200, 600, 1'200, 2'000})
    job.pass(10'000, late);
  BOOST_TEST(job.silent.empty());
  BOOST_TEST(job.watch.limit_ms(job.now) == 5'000u);
  BOOST_TEST(job.until_silent() <= 5'200u);
}

BOOST_AUTO_TEST_CASE(what_is_long_past_is_forgotten) {
  Job job;
  job.pass(10'000, 600);
  BOOST_TEST(job.watch.limit_ms(job.now) > 2'000u);
  job.pass(70'000);
  BOOST_TEST(job.watch.limit_ms(job.now) == 1'000u);
}

BOOST_AUTO_TEST_CASE(nobody_is_silent_while_nobody_listens) {
  Job job;
  job.pass(60'000);
  job.now += 30'000;
  job.watch.heard(shard1, job.now); // it had been waiting to be read
  BOOST_TEST(job.watch.tick(job.now).empty());
  job.pass(10'000);
  BOOST_TEST(job.silent.empty());
  BOOST_TEST(job.watch.limit_ms(job.now) == 1'000u);
}

BOOST_AUTO_TEST_CASE(who_is_gone_is_not_silent_and_who_joins_begins_anew) {
  Job job;
  job.pass(60'000);
  job.watch.gone(worker0);
  job.stopped = true;
  job.pass(10'000);
  BOOST_TEST(job.silent.empty());
  job.watch.heard(worker0, job.now); // a late sign of the dead
  job.pass(10'000);
  BOOST_TEST(job.silent.empty());
  job.watch.joined(worker0, job.now);
  job.pass(800);
  BOOST_TEST(job.silent.empty());
  job.watch.heard(worker0, job.now); // it took its time to begin
  BOOST_TEST(job.watch.limit_ms(job.now) == 1'000u);
  job.pass(800);
  BOOST_TEST(job.silent.empty());
  job.pass(800);
  BOOST_TEST(job.silent.size() == 1u);
}

BOOST_AUTO_TEST_CASE(one_bound_makes_a_limit_that_never_changes) {
  SilenceWatch::Options options;
  options.min_ms = options.max_ms = 5'000;
  SilenceWatch watch{options, 1'000};
  watch.joined(worker0, 1'000);
  watch.heard(worker0, 5'900);
  BOOST_TEST(watch.limit_ms(6'000) == 5'000u);
  BOOST_TEST(watch.limit_ms(90'000) == 5'000u);
}

BOOST_AUTO_TEST_CASE(a_network_raises_the_least_limit) {
  Job job;
  job.pass(10'000);
  BOOST_TEST(job.watch.limit_ms(job.now) == 1'000u);
  job.watch.raise_min(3'000);
  BOOST_TEST(job.watch.limit_ms(job.now) == 3'000u);
  job.watch.raise_min(2'000);
  BOOST_TEST(job.watch.limit_ms(job.now) == 3'000u);
  job.stopped = true;
  job.pass(2'900);
  BOOST_TEST(job.silent.empty());
  job.pass(400);
  BOOST_TEST(job.silent.size() == 1u);
}

BOOST_AUTO_TEST_CASE(silence_counts_from_the_last_sign) {
  SilenceWatch watch{{}, 1'000};
  watch.joined(worker0, 1'000);
  BOOST_TEST(watch.silent_ms(worker0, 1'400) == 400u);
  watch.heard(worker0, 1'500);
  BOOST_TEST(watch.silent_ms(worker0, 1'600) == 100u);
  BOOST_TEST(watch.silent_ms(shard1, 1'600) == 0u);
}

BOOST_AUTO_TEST_SUITE_END()
