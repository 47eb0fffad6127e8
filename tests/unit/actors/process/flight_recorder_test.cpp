#include "actors/process/flight_seconds.hpp"
#include "kernels/base/error.hpp"

#include <boost/test/unit_test.hpp>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <thread>

using namespace troupe;
using namespace std::chrono_literals;

namespace flight_recorder_files {
namespace {

struct Folder {
  Folder() { std::filesystem::create_directories(path); }
  ~Folder() { std::filesystem::remove_all(path); }
  const std::string path = (std::filesystem::temp_directory_path()
                            / ("troupe-flight-" + std::to_string(::getpid())))
                             .string();
};

size_t files_in(const std::string& folder) {
  return static_cast<size_t>(
    std::distance(std::filesystem::directory_iterator{folder}, {}));
}

} // namespace
} // namespace flight_recorder_files

using flight_recorder_files::files_in;
using flight_recorder_files::Folder;

BOOST_FIXTURE_TEST_SUITE(flight_recorder, Folder)

BOOST_AUTO_TEST_CASE(spans_are_read_as_they_were_recorded) {
  FlightRecorder recorder{path, "worker:3"};
  const auto begin = SteadyClock::now() - 1s;
  recorder.record(Activity::compute, begin, begin + 5us, 7);
  recorder.record(Activity::forward, begin + 6us, begin + 9us, 8, 42);
  { const SpanTimer timer{&recorder, Activity::update, 9}; }
  { const SpanTimer nobody{nullptr, Activity::update, 9}; }
  const auto flights = read_flights(path).all;
  BOOST_REQUIRE(flights.size() == 1u);
  const auto& flight = flights.front();
  BOOST_TEST(flight.role == "worker:3");
  BOOST_TEST(flight.process == static_cast<uint64_t>(::getpid()));
  BOOST_TEST(!flight.host.empty());
  BOOST_REQUIRE(flight.spans.size() == 3u);
  BOOST_TEST(flight.spans[0].end_ns - flight.spans[0].begin_ns == 5'000u);
  BOOST_TEST(flight.spans[0].step == 7u);
  BOOST_TEST(to_string(flight.spans[1].activity) == std::string{"forward"});
  BOOST_TEST(flight.spans[1].detail == 42u);
  BOOST_TEST(flight.spans[2].step == 9u);
}

BOOST_AUTO_TEST_CASE(the_newest_spans_stay) {
  FlightRecorder recorder{path, "ps:0"};
  const auto begin = SteadyClock::now();
  const auto count = FlightRecorder::capacity + 100;
  for (uint64_t i = 1; i <= count; ++i)
    recorder.record(Activity::serve, begin + i * 1us, begin + i * 1us, i);
  const auto spans = read_flights(path).all.front().spans;
  BOOST_TEST(spans.size() == FlightRecorder::capacity);
  BOOST_TEST(spans.front().step == 101u);
  BOOST_TEST(spans.back().step == count);
}

BOOST_AUTO_TEST_CASE(spans_that_are_gone_are_booked) {
  FlightRecorder recorder{path, "stage:0"};
  const auto file = std::filesystem::directory_iterator {
    path
    } -> path().string();
  const auto begin = SteadyClock::now();
  const auto count = 3 * FlightRecorder::capacity + 5;
  // Of ten microseconds it computes for five and waits for two.
  for (uint64_t i = 0; i < count; ++i) {
    const auto at = begin + i / 2 * 10us;
    if (i % 2 == 0)
      recorder.record(Activity::forward, at, at + 5us, 1);
    else
      recorder.record(Activity::receive, at + 5us, at + 7us, 1);
    if (i + 1 == FlightRecorder::capacity / 2)
      BOOST_TEST(!read_flight(file).earlier.has_value());
  }
  const auto flight = read_flight(file);
  BOOST_REQUIRE(flight.earlier.has_value());
  auto life = life_of(flight.spans);
  life.whole = false;
  life.earlier = flight.earlier;
  const auto from = flight.earlier->span.begin;
  const auto ledger = time_ledger(
    {life}, {from, from + static_cast<int64_t>(count / 2) * 10'000});
  const auto of = [&](TimeCause cause) {
    return ledger[static_cast<size_t>(cause)];
  };
  const auto rounds = static_cast<int64_t>(count / 2);
  BOOST_TEST(of(TimeCause::compute) == rounds * 5'000);
  BOOST_TEST(of(TimeCause::exchange) == rounds * 2'000);
  BOOST_TEST(of(TimeCause::idle) == rounds * 3'000);
  BOOST_TEST(of(TimeCause::unrecorded) == 0);
  BOOST_TEST(read_newest_spans(file, 10).spans.size() == 10u);
}

BOOST_AUTO_TEST_CASE(seconds_outlast_the_spans) {
  FlightRecorder recorder{path, "worker:1"};
  // On a whole second of the clock; of each millisecond it computes for half.
  const SteadyClock::time_point begin{std::chrono::ceil<std::chrono::seconds>(
    SteadyClock::now().time_since_epoch())};
  constexpr uint64_t steps = 100'000;
  static_assert(steps > 3 * FlightRecorder::capacity);
  for (uint64_t step = 1; step <= steps; ++step) {
    const auto at = begin + (step - 1) * 1ms;
    recorder.record(Activity::compute, at, at + 500us, step);
  }
  recorder.record(Activity::pull, begin + 99'500ms, begin + 101'250ms, 0);
  const auto lives = read_all_flight_seconds(path).all;
  BOOST_REQUIRE(lives.size() == 1u);
  const auto& life = lives.front();
  BOOST_TEST(life.flight.role == "worker:1");
  BOOST_TEST(life.flight.spans.empty());
  BOOST_REQUIRE(life.seconds.size() == 60u);
  const auto first = static_cast<uint64_t>(
    std::chrono::duration_cast<std::chrono::seconds>(begin.time_since_epoch())
      .count());
  for (uint64_t i = 0; i < 58; ++i) { // from the 43rd of a hundred on
    const auto& second = life.seconds[i];
    BOOST_TEST(second.number == first + 43 + i);
    BOOST_TEST(second.first_step == 42'001 + 1'000 * i);
    BOOST_TEST(second.last_step == 43'000 + 1'000 * i);
    BOOST_TEST(second.ns[0] == 500'000'000u);
  }
  BOOST_TEST(life.seconds[57].ns[1] == 500'000'000u);
  BOOST_TEST(life.seconds[58].ns[1] == 1'000'000'000u);
  BOOST_TEST(life.seconds[59].ns[1] == 250'000'000u);
  BOOST_TEST(life.seconds[59].last_step == 0u);
  BOOST_TEST(life.unix_ms(life.seconds[1]) - life.unix_ms(life.seconds[0])
             == 1'000u);
}

BOOST_AUTO_TEST_CASE(a_span_costs_a_write) {
  FlightRecorder recorder{path, "worker:0"};
  const auto begin = SteadyClock::now();
  constexpr int spans = 200'000;
  for (int i = 0; i < spans; ++i)
    const SpanTimer timer{&recorder, Activity::compute, 1};
  const std::chrono::duration<double, std::nano> took = SteadyClock::now()
                                                        - begin;
  BOOST_TEST_MESSAGE("a span costs " << took.count() / spans << " ns");
  BOOST_TEST(took.count() / spans < 20'000);
}

BOOST_AUTO_TEST_CASE(the_newest_few_are_those_of_the_whole_file) {
  FlightRecorder recorder{path, "ps:0"};
  const auto file = std::filesystem::directory_iterator {
    path
    } -> path().string();
  BOOST_TEST(read_newest_spans(file, 10).spans.empty());
  const auto begin = SteadyClock::now();
  uint64_t recorded = 0;
  // Fewer than are asked for, about a whole round, and into the third one.
  for (const uint64_t count :
       {uint64_t{1}, uint64_t{7}, FlightRecorder::capacity - 1,
        FlightRecorder::capacity, FlightRecorder::capacity + 1,
        2 * FlightRecorder::capacity + 12345}) {
    for (; recorded < count; ++recorded)
      recorder.record(Activity::serve, begin + recorded * 1us,
                      begin + recorded * 1us, recorded + 1);
    auto whole = read_flight(file).spans;
    const auto few = read_newest_spans(file, 10).spans;
    BOOST_REQUIRE(few.size() == std::min<uint64_t>(10, count));
    BOOST_TEST(few.back().step == count);
    whole.erase(whole.begin(),
                whole.end() - static_cast<ptrdiff_t>(few.size()));
    for (size_t i = 0; i < few.size(); ++i)
      BOOST_TEST(few[i].step == whole[i].step);
  }
  std::ofstream{path + "/none.flight"} << "something else";
  BOOST_CHECK_THROW(read_newest_spans(path + "/none.flight", 10), InputError);
}

// Symptom: reading one went on without end, and so did the memory it took.
BOOST_AUTO_TEST_CASE(numbers_of_a_file_may_be_any) {
  constexpr auto capacity = FlightRecorder::capacity;
  { const FlightRecorder recorder{path, "worker:0"}; }
  const auto file = std::filesystem::directory_iterator {
    path
    } -> path().string();
  const auto slots_at = static_cast<std::streamoff>(
    std::filesystem::file_size(file) - capacity * sizeof(FlightRecorder::Slot));
  const auto write = [&](uint64_t first) {
    std::fstream out{file, std::ios::in | std::ios::out | std::ios::binary};
    out.seekp(slots_at);
    for (uint64_t i = 0; i < capacity; ++i) {
      const FlightRecorder::Slot slot{first + i, 1, 2, 3, 0, 0};
      out.write(reinterpret_cast<const char*>(&slot), sizeof slot);
    }
    BOOST_REQUIRE(out.good());
  };
  // The last one has the highest number, none, or begins anew.
  for (const uint64_t first :
       {uint64_t{1}, UINT64_MAX - capacity + 1, UINT64_MAX - capacity + 2,
        UINT64_MAX - capacity / 2, UINT64_MAX}) {
    write(first);
    BOOST_TEST(read_newest_spans(file, 10).spans.size() <= 10u);
    BOOST_TEST(read_newest_spans(file, capacity).spans.size() <= capacity);
  }
  write(1);
  BOOST_TEST(read_newest_spans(file, 10).spans.size() == 10u);
}

BOOST_AUTO_TEST_CASE(what_a_killed_process_recorded_is_there) {
  const auto child = ::fork();
  if (child == 0) {
    FlightRecorder recorder{path, "stage:1"};
    const auto now = SteadyClock::now();
    recorder.record(Activity::backward, now, now + 1ms, 5, 2);
    ::raise(SIGKILL);
  }
  int status = 0;
  BOOST_REQUIRE(::waitpid(child, &status, 0) == child);
  const auto flight = read_flights(path).all.front();
  BOOST_TEST(flight.process == static_cast<uint64_t>(child));
  BOOST_REQUIRE(flight.spans.size() == 1u);
  BOOST_TEST(flight.spans.front().step == 5u);
}

// A mapped file ended its process there.
BOOST_AUTO_TEST_CASE(a_file_that_is_truncated_costs_the_recording_alone) {
  FlightRecorder recorder{path, "worker:0"};
  const auto file = path + "/worker-0-" + std::to_string(::getpid())
                    + ".flight";
  std::filesystem::resize_file(file, 0);
  const auto now = SteadyClock::now();
  recorder.record(Activity::compute, now, now, 1);
  BOOST_CHECK_THROW(read_flight(file), InputError);
  BOOST_CHECK_THROW(read_flight_seconds(file), InputError);
  // Another one of the same number, as in another container, has a file too.
  FlightRecorder other{path, "worker:0"};
  other.record(Activity::compute, now, now, 2);
  BOOST_TEST(read_flights(path).all.front().spans.front().step == 2u);
}

BOOST_AUTO_TEST_CASE(threads_record_at_once) {
  FlightRecorder recorder{path, "worker:0"};
  std::vector<std::thread> threads;
  for (uint64_t thread = 0; thread < 4; ++thread)
    threads.emplace_back([&recorder, thread] {
      for (uint64_t i = 0; i < 1'000; ++i) {
        const auto now = SteadyClock::now();
        recorder.record(Activity::compute, now, now, 1'000 * thread + i + 1);
      }
    });
  for (auto& thread : threads)
    thread.join();
  const auto spans = read_flights(path).all.front().spans;
  BOOST_TEST(spans.size() == 4'000u);
  uint64_t sum = 0;
  for (const auto& span : spans)
    sum += span.step;
  BOOST_TEST(sum == 4'000u * 4'001u / 2);
}

BOOST_AUTO_TEST_CASE(earlier_lives_of_a_role_are_bounded) {
  for (int i = 0; i < 5; ++i) {
    const auto name = path + "/worker-1-" + std::to_string(1'000'000 + i)
                      + ".flight";
    std::ofstream{name} << i;
    std::filesystem::last_write_time(
      name, std::filesystem::file_time_type::clock::now() - 100s + i * 1s);
  }
  std::ofstream{path + "/worker-11-5.flight"} << "of another role";
  const FlightRecorder recorder{path, "worker:1"};
  BOOST_TEST(files_in(path) == 2u + 1 + 1);
  BOOST_TEST(std::filesystem::exists(path + "/worker-1-1000004.flight"));
  BOOST_TEST(std::filesystem::exists(path + "/worker-11-5.flight"));
}

BOOST_AUTO_TEST_CASE(
  of_lives_that_are_not_kept_it_is_known_how_long_they_took) {
  const auto begin = SteadyClock::now() - 100s;
  constexpr int lives = 6;
  for (int i = 0; i < lives; ++i) {
    FlightRecorder recorder{path, "worker:1"};
    recorder.record(Activity::compute, begin + i * 10s, begin + i * 10s + 3s,
                    1);
    recorder.record(Activity::pull, begin + i * 10s + 2s, begin + i * 10s + 5s,
                    1);
    std::this_thread::sleep_for(20ms); // files are told apart by their time
  }
  auto flights = read_flights(path).all;
  BOOST_REQUIRE(flights.size() == 3u);
  std::ranges::sort(flights, {},
                    [](const Flight& x) { return x.spans.front().begin_ns; });
  BOOST_TEST(!flights[0].spans.empty());
  const auto& before = flights.back().lives_before;
  BOOST_REQUIRE(before.has_value());
  constexpr int64_t second = 1'000'000'000;
  BOOST_TEST(before->booked.compute == 3 * 3 * second);
  BOOST_TEST(before->booked.exchange == 3 * 2 * second);
  BOOST_TEST(std::abs(before->recovery - 2 * 5 * second) < second / 10);
  BOOST_TEST(std::abs(before->span.end - before->span.begin - 25 * second)
             < second / 10);
}

BOOST_AUTO_TEST_CASE(what_is_no_recording_is_refused_or_left_out) {
  BOOST_CHECK_THROW(read_flights(path), InputError);
  BOOST_CHECK_THROW(read_flight(path + "/none"), InputError);
  {
    FlightRecorder recorder{path, "worker:0"};
    const auto now = SteadyClock::now();
    for (uint64_t i = 1; i <= 3; ++i)
      recorder.record(Activity::compute, now, now, i);
  }
  const auto file = path + "/worker-0-" + std::to_string(::getpid())
                    + ".flight";
  {
    // Slot 1 claims another number, slot 2 an activity that there is not.
    std::fstream out{file, std::ios::in | std::ios::out | std::ios::binary};
    const auto slots = static_cast<std::streamoff>(
      std::filesystem::file_size(file)
      - FlightRecorder::capacity * sizeof(FlightRecorder::Slot));
    out.seekp(slots + 40);
    out.put(9);
    out.seekp(slots + 80 + 32);
    out.put(99);
  }
  BOOST_TEST(read_flight(file).spans.size() == 1u);
  BOOST_TEST(read_flight_seconds(file).seconds.size() == 1u);
  {
    // Seconds in places that are not theirs, or longer than any.
    std::fstream out{file, std::ios::in | std::ios::out | std::ios::binary};
    out.seekp(192);
    for (int i = 0; i < 64 * 15; ++i)
      out.write("\xff\xff\xff\xff\xff\xff\xff\xff", 8);
  }
  BOOST_TEST(read_flight_seconds(file).seconds.size() == 1u);
  std::ofstream{path + "/torn.flight"} << "troupeF1";
  std::filesystem::create_directory(path + "/folder.flight");
  BOOST_TEST(read_flights(path).all.size() == 1u);
  BOOST_TEST(read_flights(path).passed_over == 2u);
  std::filesystem::resize_file(file, 1'000);
  BOOST_CHECK_THROW(read_flight(file), InputError);
  BOOST_CHECK_THROW(read_flight_seconds(file), InputError);
  BOOST_CHECK_THROW((FlightRecorder{"/dev/null/x", "worker:0"}), InputError);
}

BOOST_AUTO_TEST_SUITE_END()
