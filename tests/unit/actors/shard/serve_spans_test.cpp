#include "actors/shard/serve_spans.hpp"

#include <boost/test/unit_test.hpp>
#include <unistd.h>

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

using namespace troupe;

BOOST_AUTO_TEST_SUITE(serve_spans)

namespace {

using Microseconds = std::chrono::microseconds;

/// Begin and length of each span that such tasks make, in microseconds since
/// the first one began.
std::vector<std::pair<uint64_t, uint64_t>>
spans_of(const std::vector<std::pair<int, int>>& tasks) {
  const auto folder = std::filesystem::temp_directory_path()
                      / ("troupe_serve_spans_" + std::to_string(::getpid()));
  const auto start = SteadyClock::now();
  {
    ServeSpans spans{std::make_shared<FlightRecorder>(folder.string(), "ps:0")};
    for (const auto& [begin, end] : tasks)
      spans.add(start + Microseconds{begin}, start + Microseconds{end});
  }
  const auto flight = read_flights(folder.string()).all.front();
  std::filesystem::remove_all(folder);
  std::vector<std::pair<uint64_t, uint64_t>> out;
  for (const auto& span : flight.spans)
    out.emplace_back((span.begin_ns - flight.spans.front().begin_ns) / 1000,
                     (span.end_ns - span.begin_ns) / 1000);
  return out;
}

using Spans = std::vector<std::pair<uint64_t, uint64_t>>;

} // namespace

BOOST_AUTO_TEST_CASE(short_tasks_that_follow_one_another_are_one_span) {
  BOOST_TEST((spans_of({{0, 1}, {2, 3}, {4, 100}, {101, 300}})
              == Spans{{0, 100}, {101, 199}}));
  BOOST_TEST((spans_of({{0, 5}, {6, 15}, {16, 25}, {26, 27}})
              == Spans{{0, 25}, {26, 1}}));
}

BOOST_AUTO_TEST_CASE(a_short_task_alone_is_there_too) {
  BOOST_TEST((spans_of({{0, 1}, {500, 700}, {900, 901}})
              == Spans{{0, 1}, {500, 200}, {900, 1}}));
}

BOOST_AUTO_TEST_CASE(tasks_of_several_threads_may_overlap) {
  BOOST_TEST(
    (spans_of({{0, 10}, {5, 50}, {20, 60}}) == Spans{{0, 50}, {20, 40}}));
}

BOOST_AUTO_TEST_SUITE_END()
