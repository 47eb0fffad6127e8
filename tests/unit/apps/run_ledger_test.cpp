#include "apps/process/run_ledger.hpp"

#include <boost/test/unit_test.hpp>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include <cmath>
#include <filesystem>

using namespace troupe;

BOOST_AUTO_TEST_SUITE(run_ledger)

namespace {

/// A process whose clock began at Unix time `offset`.
Flight flight(const std::string& role, int64_t offset,
              std::vector<Span> spans) {
  return {role, 1, "host", offset, std::move(spans)};
}

int64_t booked(const TimeLedger& ledger, TimeCause cause) {
  return ledger[static_cast<size_t>(cause)];
}

} // namespace

BOOST_AUTO_TEST_CASE(hosts_clocks_are_put_together_and_lives_in_order) {
  const auto ledgers =
    ledgers_of({flight("ps:0", 0, {{5, 10, 1, Activity::serve}}),
                flight("worker:0", 500, {{40, 60, 2, Activity::compute}}),
                flight("worker:0", 100,
                       {{10, 30, 1, Activity::compute},
                        {30, 50, 1, Activity::push},
                        {50, 60, 1, Activity::pull}}),
                flight("worker:1", 0, {})},
               {0, 1'000});
  BOOST_TEST(ledgers.size() == 2u);
  const auto& worker = ledgers.at("worker:0");
  BOOST_TEST(booked(worker, TimeCause::start) == 110);
  BOOST_TEST(booked(worker, TimeCause::compute) == 40);
  BOOST_TEST(booked(worker, TimeCause::exchange) == 30);
  BOOST_TEST(booked(worker, TimeCause::recovery) == 380);
  BOOST_TEST(booked(worker, TimeCause::idle) == 440);
  BOOST_TEST(booked(ledgers.at("ps:0"), TimeCause::compute) == 5);
}

BOOST_AUTO_TEST_CASE(readers_compute_as_they_read_and_workers_wait_for_data) {
  const auto ledgers = ledgers_of(
    {flight("reader:0", 0,
            {{10, 30, 0, Activity::read}, {50, 60, 0, Activity::read}}),
     flight("worker:0", 0,
            {{20, 40, 1, Activity::data}, {20, 90, 1, Activity::compute}})},
    {0, 100});
  const auto& reader = ledgers.at("reader:0");
  BOOST_TEST(booked(reader, TimeCause::start) == 10);
  BOOST_TEST(booked(reader, TimeCause::compute) == 30);
  BOOST_TEST(booked(reader, TimeCause::idle) == 60);
  const auto& worker = ledgers.at("worker:0");
  BOOST_TEST(booked(worker, TimeCause::data) == 20);
  BOOST_TEST(booked(worker, TimeCause::compute) == 50);
  BOOST_TEST(booked(worker, TimeCause::idle) == 10);
}

BOOST_AUTO_TEST_CASE(what_is_no_longer_kept_is_not_called_a_start) {
  const auto life = [](int64_t offset) {
    return flight("worker:0", offset, {{10, 20, 1, Activity::compute}});
  };
  // The third one's recorder knew of lives before them.
  auto knows = life(300);
  knows.lives_before = EarlierTime{{50, 90}, {0, 20, 10}, 5};
  const auto three = [&](TimeSpan run) {
    return ledgers_of({life(100), life(200), knows}, run).at("worker:0");
  };
  const auto own = three({0, 400});
  BOOST_TEST(booked(own, TimeCause::unrecorded) == 0);
  BOOST_TEST(booked(own, TimeCause::start) == 50);
  BOOST_TEST(booked(own, TimeCause::compute) == 50);
  BOOST_TEST(booked(own, TimeCause::exchange) == 10);
  BOOST_TEST(booked(own, TimeCause::recovery) == 5 + 20 + 180);
  const auto later = three({60, 400}); // some were of the run before
  BOOST_TEST(booked(later, TimeCause::unrecorded) == 50);
  BOOST_TEST(booked(later, TimeCause::start) == 0);
  BOOST_TEST(booked(later, TimeCause::recovery) == 180);
  // Of the run before alone: nothing of this one is missing.
  BOOST_TEST(booked(three({95, 400}), TimeCause::unrecorded) == 0);
  // A host was lost with what it had.
  const auto some = ledgers_of({life(100)}, {0, 400}, false).at("worker:0");
  BOOST_TEST(booked(some, TimeCause::unrecorded) == 110);
  std::vector<Span> full;
  for (uint64_t i = 0; i < FlightRecorder::capacity; ++i)
    full.push_back({100 + i, 101 + i, 1, Activity::compute});
  const auto one =
    ledgers_of({flight("worker:0", 0, full)}, {0, 50'000}).at("worker:0");
  BOOST_TEST(booked(one, TimeCause::unrecorded) == 100);
}

BOOST_AUTO_TEST_CASE(a_summary_gets_it_where_there_are_recorders) {
  namespace fs = std::filesystem;
  const auto folder = fs::temp_directory_path()
                      / ("troupe_ledger_" + std::to_string(getpid()));
  const std::string plain = "{\"steps\": 3}";
  BOOST_TEST(with_ledger(plain, folder.string(), {0, 10}) == plain);
  BOOST_TEST(with_ledger(plain, "", {0, 10}) == plain);
  fs::create_directory(folder);
  const auto now = SteadyClock::now();
  {
    FlightRecorder recorder{folder.string(), "worker:0"};
    recorder.record(Activity::compute, now - std::chrono::seconds{1}, now, 1);
  }
  const std::chrono::nanoseconds unix_now{
    std::chrono::system_clock::now().time_since_epoch()};
  const auto second = std::chrono::nanoseconds{std::chrono::seconds{1}};
  const auto found =
    with_ledger(plain, folder.string(),
                {(unix_now - 3 * second).count(), (unix_now + second).count()});
  fs::remove_all(folder);
  const auto json = nlohmann::json::parse(found);
  BOOST_TEST(json["steps"] == 3);
  BOOST_TEST(json["ledger"]["seconds"] == 4.0);
  BOOST_TEST(json["ledger"]["roles"]["worker:0"]["compute"] == 1.0);
  double sum = 0;
  for (const auto& [cause, seconds] :
       json["ledger"]["roles"]["worker:0"].items())
    sum += seconds.get<double>();
  BOOST_TEST(std::abs(sum - 4) < 1e-6);
}

BOOST_AUTO_TEST_SUITE_END()
