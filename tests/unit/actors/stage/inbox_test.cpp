#include "actors/stage/inbox.hpp"

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <numeric>

using namespace troupe;

BOOST_AUTO_TEST_SUITE(stage_inbox_suite)

namespace {

constexpr Fence inbox_fence{1, 1, 2};

TensorView counted_values(size_t count) {
  std::vector<float> values(count);
  std::iota(values.begin(), values.end(), 0.0f);
  return TensorView::copy(values);
}

std::vector<StageValues> forward_runs(const TensorView& values) {
  return runs_of(inbox_fence, 9, StageStream::forward, 3, values);
}

} // namespace

BOOST_AUTO_TEST_CASE(what_is_longer_than_a_message_arrives_whole) {
  constexpr size_t message = TensorView::max_bytes / sizeof(float);
  for (size_t count : {size_t{1}, message, message + 1, 2 * message + 7}) {
    const auto values = counted_values(count);
    const auto runs = forward_runs(values);
    BOOST_TEST(runs.size() == (count + message - 1) / message);
    StageInbox inbox;
    for (const auto& run : runs) {
      BOOST_TEST(!inbox.take(9, StageStream::forward, 3));
      BOOST_TEST(run.values.bytes() <= TensorView::max_bytes);
      BOOST_TEST(inbox.put(run, count));
    }
    BOOST_TEST(!inbox.take(9, StageStream::backward, 3));
    BOOST_TEST(!inbox.take(9, StageStream::forward, 2));
    BOOST_TEST(!inbox.take(10, StageStream::forward, 3));
    const auto found = inbox.take(9, StageStream::forward, 3);
    BOOST_REQUIRE(found);
    BOOST_TEST(std::ranges::equal(found->span(), values.span()));
    BOOST_TEST(!inbox.take(9, StageStream::forward, 3)); // once
  }
}

BOOST_AUTO_TEST_CASE(a_crossing_of_nothing_is_a_run_all_the_same) {
  const auto runs = forward_runs({});
  BOOST_REQUIRE(runs.size() == 1u);
  StageInbox inbox;
  BOOST_TEST(!inbox.take(9, StageStream::forward, 3));
  BOOST_TEST(inbox.put(runs[0], 0));
  BOOST_TEST(!inbox.put(runs[0], 0)); // one is enough
  BOOST_TEST(inbox.take(9, StageStream::forward, 3).has_value());
}

BOOST_AUTO_TEST_CASE(runs_that_do_not_fit_the_crossing_are_refused) {
  StageInbox inbox;
  auto run = forward_runs(counted_values(10)).front();
  BOOST_TEST(!inbox.put(run, 9)); // too long
  run.begin = 1;
  BOOST_TEST(!inbox.put(run, 11)); // a gap before it
  run.begin = 0;
  BOOST_TEST(inbox.put(run, 11));
  BOOST_TEST(!inbox.put(run, 11)); // twice
  run.begin = 10;
  BOOST_TEST(!inbox.put(run, 11)); // past the end
  run.values = {};
  BOOST_TEST(!inbox.put(run, 11)); // nothing, where something is missing
  inbox.clear();
  run.begin = 0;
  run.values = counted_values(11);
  BOOST_TEST(inbox.put(run, 11)); // of the next epoch
}

BOOST_AUTO_TEST_SUITE_END()
