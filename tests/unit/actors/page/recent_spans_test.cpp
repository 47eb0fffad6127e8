#include "actors/page/recent_spans.hpp"
#include "actors/process/flight_recorder.hpp"

#include <boost/test/unit_test.hpp>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include <filesystem>
#include <fstream>

using namespace troupe;
using namespace std::chrono_literals;

namespace {

struct RecorderFolder {
  RecorderFolder() { std::filesystem::create_directories(path); }
  ~RecorderFolder() { std::filesystem::remove_all(path); }
  const std::string path = (std::filesystem::temp_directory_path()
                            / ("troupe-spans-" + std::to_string(::getpid())))
                             .string();
};

} // namespace

BOOST_FIXTURE_TEST_SUITE(spans_of_roles, RecorderFolder)

BOOST_AUTO_TEST_CASE(roles_stand_on_one_axis_that_ends_with_the_newest) {
  FlightRecorder worker{path, "worker:0"};
  FlightRecorder shard{path, "ps:0"};
  const auto now = SteadyClock::now();
  worker.record(Activity::compute, now - 11s, now - 10500ms, 1); // too old
  worker.record(Activity::compute, now - 4ms, now - 2ms, 7);
  shard.record(Activity::serve, now - 3ms, now - 1ms, 8);
  std::ofstream{path + "/broken.flight"} << "no recorder's";
  const auto spans = recent_spans(path, 100);
  const auto& roles = spans["roles"];
  BOOST_REQUIRE(roles.size() == 2u);
  BOOST_REQUIRE(roles["ps:0"].size() == 1u);
  BOOST_REQUIRE(roles["worker:0"].size() == 1u);
  const auto micro = [&](const char* role, int which) {
    return roles[role][0][which].get<int64_t>();
  };
  // Each recorder has the machine's clock as it was when it began.
  BOOST_TEST(std::abs(micro("ps:0", 0) - 2000) < 500);
  BOOST_TEST(std::abs(micro("ps:0", 1)) < 500);
  BOOST_TEST(std::abs(micro("worker:0", 0) - 3000) < 500);
  BOOST_TEST(std::abs(micro("worker:0", 1) - 1000) < 500);
  BOOST_TEST(micro("ps:0", 2) == static_cast<int>(Activity::serve));
  BOOST_TEST(micro("worker:0", 3) == 7);
}

BOOST_AUTO_TEST_CASE(roles_share_what_may_be_shown) {
  FlightRecorder worker{path, "worker:0"};
  FlightRecorder shard{path, "ps:0"};
  const auto now = SteadyClock::now();
  for (uint64_t i = 0; i < 100; ++i) {
    worker.record(Activity::compute, now + i * 1us, now + i * 1us, i);
    shard.record(Activity::serve, now + i * 1us, now + i * 1us, i);
  }
  const auto spans = recent_spans(path, 60);
  BOOST_TEST(spans["roles"]["worker:0"].size() == 30u);
  BOOST_TEST(spans["roles"]["worker:0"].back()[3] == 99u);
  BOOST_TEST(spans["roles"]["ps:0"].size() == 30u);
}

BOOST_AUTO_TEST_CASE(where_nobody_records_there_is_nothing) {
  BOOST_TEST(recent_spans(path, 100).is_null());
  BOOST_TEST(recent_spans(path + "/nowhere", 100).is_null());
}

BOOST_AUTO_TEST_SUITE_END()
