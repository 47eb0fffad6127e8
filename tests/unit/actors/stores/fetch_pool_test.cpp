#include "actors/stores/fetch_pool.hpp"
#include "kernels/base/error.hpp"

#include <boost/test/unit_test.hpp>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <future>
#include <mutex>

using namespace troupe;

BOOST_AUTO_TEST_SUITE(fetch_pool)

namespace {

std::vector<std::byte> bytes_of(size_t count) {
  return std::vector<std::byte>(count, std::byte{7});
}

} // namespace

BOOST_AUTO_TEST_CASE(what_was_begun_is_there_when_it_is_taken) {
  FetchPool pool{2, 1'000};
  std::promise<void> fetched;
  pool.begin("a", 10, [&] {
    fetched.set_value();
    return bytes_of(10);
  });
  fetched.get_future().wait();
  const auto got = pool.take("a", []() -> std::vector<std::byte> {
    throw InputError("fetched again");
  });
  BOOST_TEST(got->size() == 10u);
  // And then it is gone: who takes it again fetches it.
  BOOST_TEST(pool.take("a", [] { return bytes_of(3); })->size() == 3u);
}

BOOST_AUTO_TEST_CASE(two_who_take_the_same_at_once_get_one_fetch) {
  FetchPool pool{1, 1'000};
  const auto until = std::chrono::steady_clock::now()
                     + std::chrono::seconds{60};
  bool shared = false;
  while (!shared && std::chrono::steady_clock::now() < until) {
    std::atomic<int> fetches{0};
    const auto take = [&] {
      return pool.take("a", [&] {
        ++fetches;
        return bytes_of(100'000);
      });
    };
    auto other = std::async(std::launch::async, take);
    const auto mine = take();
    const auto theirs = other.get();
    BOOST_REQUIRE(*mine == *theirs);
    shared = mine == theirs; // the same memory
    BOOST_REQUIRE(fetches == (shared ? 1 : 2));
  }
  BOOST_TEST(shared);
}

BOOST_AUTO_TEST_CASE(what_has_no_room_is_not_fetched_ahead) {
  FetchPool pool{1, 100};
  std::promise<void> go_on;
  auto gate = go_on.get_future().share();
  std::atomic<int> fetches{0};
  for (const auto* key : {"a", "b", "c"})
    pool.begin(key, 50, [&, gate] {
      gate.wait();
      ++fetches;
      return bytes_of(50);
    });
  go_on.set_value();
  for (const auto* key : {"a", "b"})
    BOOST_TEST(pool.take(key, [] { return bytes_of(50); })->size() == 50u);
  // The third was never begun: it is fetched by who takes it.
  BOOST_TEST(pool.take("c", [] { return bytes_of(1); })->size() == 1u);
  pool.begin("d", 100, [] { return bytes_of(100); }); // there is room again
  BOOST_TEST(pool.take("d", [] { return bytes_of(100); })->size() == 100u);
}

BOOST_AUTO_TEST_CASE(a_failure_is_that_of_who_takes_it) {
  FetchPool pool{1, 1'000};
  pool.begin("a", 10, []() -> std::vector<std::byte> {
    throw InputError("no such thing");
  });
  BOOST_CHECK_THROW(
    pool.take("a",
              []() -> std::vector<std::byte> { throw InputError("nor now"); }),
    InputError);
  BOOST_TEST(pool.take("a", [] { return bytes_of(2); })->size() == 2u);
}

BOOST_AUTO_TEST_CASE(what_failed_before_it_was_wanted_is_tried_again) {
  FetchPool pool{1, 1'000};
  pool.begin("a", 10, []() -> std::vector<std::byte> {
    throw InputError("the store was away for a while");
  });
  std::promise<void> next;
  pool.begin("b", 10, [&] {
    next.set_value(); // the only thread is done with the first
    return bytes_of(10);
  });
  next.get_future().wait();
  BOOST_TEST(pool.take("a", [] { return bytes_of(2); })->size() == 2u);
}

// Symptom: after a pause sixteen fetches that were begun at once were made by
// the one or two threads that had been idle, one after the other: each of the
// sixteen was left to them.
BOOST_AUTO_TEST_CASE(as_many_threads_as_there_may_be_fetch_at_once) {
  constexpr int threads = 6;
  FetchPool pool{threads, 1'000};
  pool.take("first", [] { return bytes_of(1); });
  pool.begin("second", 1, [] { return bytes_of(1); });
  pool.take("second", [] { return bytes_of(1); }); // a thread is idle, or soon
  std::mutex mutex;
  std::condition_variable came;
  int there = 0;
  std::vector<std::promise<bool>> met(threads);
  for (int i = 0; i < threads; ++i)
    pool.begin(std::to_string(i), 10, [&, i] {
      std::unique_lock lock{mutex};
      ++there;
      came.notify_all();
      met[static_cast<size_t>(i)].set_value(came.wait_for(
        lock, std::chrono::seconds{60}, [&] { return there == threads; }));
      return bytes_of(10);
    });
  for (auto& one : met)
    BOOST_TEST(one.get_future().get());
}

BOOST_AUTO_TEST_CASE(it_ends_with_what_nobody_took) {
  std::atomic<int> fetches{0};
  {
    FetchPool pool{4, 1'000'000};
    for (int i = 0; i < 100; ++i)
      pool.begin(std::to_string(i), 10, [&] {
        ++fetches;
        return bytes_of(10);
      });
  }
  BOOST_TEST(fetches <= 100);
}

BOOST_AUTO_TEST_SUITE_END()
