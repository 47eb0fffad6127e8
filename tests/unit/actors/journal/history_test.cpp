#include "actors/journal/history.hpp"
#include "actors/journal/job_journal.hpp"
#include "actors/journal/role_text.hpp"
#include "kernels/base/error.hpp"

#include <boost/test/unit_test.hpp>
#include <nlohmann/json.hpp>

using namespace troupe;

namespace history {
namespace {

constexpr RoleId worker{RoleKind::worker, 3};
constexpr RoleId shard{RoleKind::shard, 1};
constexpr RoleId coordinator{RoleKind::coordinator, 0};

struct Kept : JournalSink {
  void append(JournalEvent event, std::function<void()> synced) override {
    event.id = events.size() + 1;
    events.push_back(std::move(event));
    if (synced)
      synced();
  }
  std::vector<JournalEvent> events;
};

struct Bench {
  EpochRow row(uint64_t epoch) const {
    EpochRow out;
    out.epoch = epoch;
    out.members = {{worker, 7}, {shard, 9}};
    out.chains = {{1, 3}, {3}};
    out.wanted = {{1, 3}, {3, 1}};
    out.consistency.async = true;
    out.consistency.staleness = 4;
    out.consistency.period = 2;
    out.consistency.step = 50;
    out.consistency.updates = 60;
    out.period_epoch = 5;
    out.numeric_classes = {"A", "B"};
    return out;
  }
  JobHistory history() const { return read_history(kept->events); }

  std::shared_ptr<Kept> kept = std::make_shared<Kept>();
  JobJournal journal{kept, 3};
};

} // namespace
} // namespace history

BOOST_FIXTURE_TEST_SUITE(history, Bench)

BOOST_AUTO_TEST_CASE(the_newest_epoch_is_read_as_it_was_written) {
  journal.job(77, "{}");
  journal.note("layout", {{"split_at", "dense_1"}});
  journal.address("127.0.0.1:7000", "127.0.0.1:9400", "ckpt/step-5");
  journal.epoch(row(4), [] {});
  bool synced = false;
  journal.epoch(row(6), [&] { synced = true; });
  BOOST_TEST(synced);
  const auto read = history();
  const auto expected = row(6);
  BOOST_TEST(read.job == 77u);
  BOOST_TEST(read.asked == "{}");
  BOOST_TEST(read.term == 3u);
  BOOST_TEST(read.address == "127.0.0.1:7000");
  BOOST_TEST(read.metrics_address == "127.0.0.1:9400");
  BOOST_TEST(read.resume_from == "ckpt/step-5");
  BOOST_TEST(read.layout == R"({"split_at":"dense_1"})");
  BOOST_TEST(read.epoch == 6u);
  BOOST_TEST((read.members == expected.members));
  BOOST_TEST((read.chains == expected.chains));
  BOOST_TEST((read.wanted == expected.wanted));
  BOOST_TEST((read.consistency == expected.consistency));
  BOOST_TEST(read.period_epoch == 5u);
  BOOST_TEST(read.numeric_classes == (std::vector<std::string>{"A", "B"}));
  BOOST_TEST(!read.over);
}

BOOST_AUTO_TEST_CASE(commits_are_counted_in_batches_and_undone_by_a_rollback) {
  for (uint64_t step = 0; step < 10; ++step)
    journal.committed(step);
  RunCounts counts;
  counts.samples = 640;
  counts.last_loss = 0.25;
  journal.flush(counts);
  journal.flush(counts); // nothing new
  BOOST_TEST(kept->events.size() == 1u);
  BOOST_TEST(history().steps == 10u);
  BOOST_TEST(history().counts.samples == 640u);
  BOOST_TEST(history().counts.last_loss == 0.25);
  journal.committed(10);
  counts.leases_rolled_back = 44;
  journal.rolled_back(0, 11, "a slice lost its state", counts);
  BOOST_TEST(history().steps == 0u);
  BOOST_TEST(history().counts.leases_rolled_back == 44u);
  auto begun = row(7);
  begun.rollback = true;
  journal.epoch(begun, [] {});
  journal.flush(counts); // the step before is undone
  BOOST_TEST(history().steps == 0u);
  journal.committed(0);
  journal.flush(counts);
  BOOST_TEST(history().steps == 1u);
}

// The library that reads JSON cast 1e300 to an integer, whatever came of it.
BOOST_AUTO_TEST_CASE(numbers_that_are_not_whole_or_too_large_are_refused) {
  journal.switched(9, "async");
  auto& body = kept->events.back().body;
  for (const std::string number : {"1e300", "-1", "0.5", "null"}) {
    body = R"({"mode":"async","step":)" + number + '}';
    BOOST_CHECK_THROW(history(), InputError);
  }
  body = R"({"mode":"async","step":18446744073709551615})";
  BOOST_TEST(history().switches.at(0).step == ~uint64_t{0});
}

BOOST_AUTO_TEST_CASE(a_death_stays_open_until_its_recovery) {
  journal.death({"", worker, StepPhase::push, 1000, 0, 12});
  journal.death({"", worker, StepPhase::none, 2000, 0, 15});
  journal.recovery(
    {"worker_restarted", worker, StepPhase::push, 1000, 1500, 12});
  const auto rows = history().recoveries;
  BOOST_REQUIRE_EQUAL(rows.size(), 2u);
  BOOST_TEST(rows[0].kind == "worker_restarted");
  BOOST_TEST(rows[0].resumed_ms == 1500u);
  BOOST_TEST((rows[0].phase == StepPhase::push));
  BOOST_TEST(rows[1].kind == "");
  BOOST_TEST(rows[1].resumed_ms == 0u);
  BOOST_TEST(rows[1].step == 15u);
}

BOOST_AUTO_TEST_CASE(a_job_that_is_laid_out_anew_has_no_epoch_yet) {
  const RoleId stage{RoleKind::stage, 5};
  journal.address("127.0.0.1:7000", "", "ckpt/step-5");
  journal.epoch(row(4), [] {});
  journal.committed(0);
  journal.flush({});
  bool synced = false;
  journal.replanned({stage, 7, R"({"mesh":"data=3,stage=2"})", "ckpt/step-40",
                     40, "stage:5 is gone"},
                    [&] { synced = true; });
  BOOST_TEST(synced);
  auto read = history();
  BOOST_TEST(read.replanned);
  BOOST_TEST(read.replanned_in.has_value());
  BOOST_TEST(read.replanned_in.value_or(0) == read.term);
  BOOST_TEST(read.devices == 7u);
  BOOST_TEST(read.layout == R"({"mesh":"data=3,stage=2"})");
  BOOST_TEST(read.resume_from == "ckpt/step-40");
  BOOST_TEST(read.steps == 40u);
  BOOST_TEST(read.epoch == 4u);
  BOOST_TEST(read.members.empty());
  BOOST_TEST(read.chains.empty());
  BOOST_TEST(read.wanted.empty());
  journal.epoch(row(5), [] {});
  read = history();
  BOOST_TEST(!read.replanned);
  BOOST_TEST(read.replanned_in.has_value()); // its members may still come
  BOOST_TEST(read.devices == 7u);
  BOOST_TEST(read.members.size() == 2u);
}

BOOST_AUTO_TEST_CASE(a_fault_of_the_coordinator_is_over_with_its_death) {
  journal.fault(StepPhase::seal, {});
  BOOST_TEST((history().fault == StepPhase::seal));
  journal.death({"", coordinator, StepPhase::seal, 1000, 0, 12});
  BOOST_TEST((history().fault == StepPhase::none));
}

BOOST_AUTO_TEST_CASE(who_joined_and_who_left_is_known) {
  journal.joined(worker);
  journal.joined(shard);
  journal.left(shard, {});
  journal.left({RoleKind::worker, 0}, {});
  BOOST_TEST((history().joined == std::set<RoleId>{worker}));
  BOOST_TEST(
    (history().left == std::set<RoleId>{{RoleKind::worker, 0}, shard}));
}

// Symptom: one by hand that was lost and came back was refused by the
// coordinator after that, as one that had left.
BOOST_AUTO_TEST_CASE(who_came_back_has_not_left) {
  journal.joined(worker);
  journal.left(worker, {});
  journal.joined(worker);
  BOOST_TEST((history().joined == std::set<RoleId>{worker}));
  BOOST_TEST(history().left.empty());
}

BOOST_AUTO_TEST_CASE(an_event_that_does_not_say_what_it_should_is_named) {
  journal.note("epoch", {});
  BOOST_CHECK_EXCEPTION(history(), InputError, [](const InputError& x) {
    return std::string{x.what()}.starts_with("event 1 (epoch)");
  });
}

// A checksum that is right says nothing about what an event says.
BOOST_AUTO_TEST_CASE(more_steps_than_anybody_takes_are_refused) {
  journal.note("commits", {{"first", uint64_t{1} << 62}, {"count", 1}});
  BOOST_CHECK_EXCEPTION(history(), InputError, [](const InputError& x) {
    return std::string{x.what()}.find("there are no 4611686018427387904 steps")
           != std::string::npos;
  });
}

BOOST_AUTO_TEST_CASE(an_event_that_is_nested_deeply_is_refused) {
  const auto body = std::string(200'000, '[') + std::string(200'000, ']');
  BOOST_CHECK_THROW(read_history({{1, 0, 1, "change", body}}), InputError);
}

BOOST_AUTO_TEST_CASE(the_newest_events_are_kept_without_the_commits) {
  journal.evaluated(0, 1, {});
  for (uint64_t version = 1; version <= 200; ++version) {
    journal.committed(version - 1);
    journal.flush({});
    journal.evaluated(version, 1, {});
  }
  const auto newest = history().newest;
  BOOST_REQUIRE(newest.size() == 200u);
  for (uint64_t i = 0; i < 200; ++i) {
    BOOST_TEST(newest[i].kind == "evaluation");
    BOOST_TEST(newest[i].id == 2 * (i + 1) + 1);
  }
}

BOOST_AUTO_TEST_CASE(initial_weights_are_those_of_what_was_asked_for) {
  journal.job(7, "asked");
  BOOST_TEST(history().initial.first == "");
  journal.initial("/w.safetensors", "/kept", [] {});
  BOOST_TEST(history().initial.first == "/w.safetensors");
  BOOST_TEST(history().initial.second == "/kept");
  journal.job(7, "asked");
  BOOST_TEST(history().initial.second == "/kept");
  journal.job(8, "otherwise");
  BOOST_TEST(history().initial.first == "");
}

BOOST_AUTO_TEST_CASE(kinds_of_others_are_passed_over) {
  journal.note("checkpoint", {{"step", 5}});
  BOOST_TEST(history().steps == 0u);
}

BOOST_AUTO_TEST_CASE(without_a_sink_an_epoch_counts_at_once) {
  JobJournal none;
  bool synced = false;
  none.epoch(row(1), [&] { synced = true; });
  BOOST_TEST(synced);
}

BOOST_AUTO_TEST_CASE(every_role_is_read_back_from_its_name) {
  for (auto role : {worker, shard, coordinator, RoleId{RoleKind::evaluator, 0}})
    BOOST_TEST((role_from_text(to_string(role)) == role));
  for (const auto* bad :
       {"", "worker", "worker:", "worker:x", "worker:1x", "ps:-1", "nobody:1"})
    BOOST_CHECK_THROW(role_from_text(bad), InputError);
}

BOOST_AUTO_TEST_SUITE_END()
