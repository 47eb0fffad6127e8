#include "kernels/engine/executor.hpp"

#include <boost/test/unit_test.hpp>
#include <fenv.h>
#include <pthread.h>

#include <atomic>
#include <chrono>
#include <future>
#include <memory>
#include <mutex>
#include <set>
#include <stdexcept>
#include <thread>
#include <vector>

using namespace troupe;

BOOST_AUTO_TEST_SUITE(executor_test)

namespace {

/// Runs `task` on the lead thread and waits for its result.
template <class Task>
auto run(Executor& executor, Task task) {
  using Result = decltype(task());
  auto packaged = std::make_shared<std::packaged_task<Result()>>(task);
  auto result = packaged->get_future();
  executor.submit([packaged] { (*packaged)(); });
  return result.get();
}

} // namespace

BOOST_AUTO_TEST_CASE(tasks_run_in_the_order_submitted_on_one_thread) {
  Executor executor("order", 3);
  std::vector<int> order;
  std::set<std::thread::id> threads;
  for (int i = 0; i < 200; ++i)
    executor.submit([&, i] {
      order.push_back(i);
      threads.insert(std::this_thread::get_id());
    });
  run(executor, [] {});
  BOOST_REQUIRE_EQUAL(order.size(), 200u);
  for (int i = 0; i < 200; ++i)
    BOOST_REQUIRE_EQUAL(order[static_cast<size_t>(i)], i);
  BOOST_TEST(threads.size() == 1u);
  BOOST_TEST(!threads.contains(std::this_thread::get_id()));
}

BOOST_AUTO_TEST_CASE(a_brief_task_is_done_here_where_nothing_else_is_to_do) {
  Executor executor("brief", 3);
  std::thread::id ran;
  std::atomic<int> items = 0;
  executor.submit(
    [&] {
      ran = std::this_thread::get_id();
      executor.parallel_for(100, [&](size_t, uint32_t) { ++items; });
    },
    TaskSize::brief);
  BOOST_TEST((ran == std::this_thread::get_id()));
  BOOST_TEST(items == 100);
  BOOST_CHECK_THROW(executor.submit([] { throw std::runtime_error("late"); },
                                    TaskSize::brief),
                    std::runtime_error);
  executor.submit([&] { ran = {}; }, TaskSize::brief); // goes on
  BOOST_TEST((ran == std::thread::id{}));
}

BOOST_AUTO_TEST_CASE(a_brief_task_waits_for_those_before_it) {
  Executor executor("behind", 1);
  std::promise<void> may_end;
  std::vector<int> order;
  executor.submit([&, end = may_end.get_future().share()] {
    end.wait();
    order.push_back(0);
  });
  for (int i = 1; i < 4; ++i) // as the first one runs, or is queued
    executor.submit([&, i] { order.push_back(i); }, TaskSize::brief);
  may_end.set_value();
  run(executor, [] {});
  BOOST_TEST(order == (std::vector{0, 1, 2, 3}),
             boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(tasks_of_both_sizes_from_some_threads_never_overlap) {
  Executor executor("turns", 2);
  uint64_t sum = 0; // what two tasks at once would spoil
  std::atomic<int> inside = 0;
  std::atomic<bool> alone = true;
  std::vector<std::thread> threads;
  threads.reserve(4);
  for (int thread = 0; thread < 4; ++thread)
    threads.emplace_back([&, thread] {
      for (int i = 0; i < 5000; ++i)
        executor.submit(
          [&] {
            if (++inside > 1)
              alone = false;
            ++sum;
            --inside;
          },
          (i + thread) % 3 == 0 ? TaskSize::any : TaskSize::brief);
    });
  for (auto& thread : threads)
    thread.join();
  run(executor, [] {});
  BOOST_TEST(sum == 20'000u);
  BOOST_TEST(alone);
}

BOOST_AUTO_TEST_CASE(parallel_for_covers_every_item_once) {
  for (uint32_t threads : {1, 2, 3, 8}) {
    Executor executor("cover", threads);
    BOOST_TEST(executor.threads() == threads);
    for (size_t items : {0, 1, 2, 7, 100}) {
      for (int round = 0; round < 20; ++round) {
        std::vector<std::atomic<int>> visits(items);
        std::atomic<bool> foreign = false;
        run(executor, [&] {
          executor.parallel_for(items, [&](size_t item, uint32_t thread) {
            ++visits[item];
            if (thread >= threads)
              foreign = true;
          });
        });
        for (auto& count : visits)
          BOOST_REQUIRE_EQUAL(count.load(), 1);
        BOOST_REQUIRE(!foreign);
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(no_thread_index_is_used_by_two_threads_at_once) {
  Executor executor("lanes", 4);
  std::vector<std::atomic<int>> inside(4);
  std::atomic<bool> shared = false;
  run(executor, [&] {
    for (int round = 0; round < 100; ++round)
      executor.parallel_for(16, [&](size_t, uint32_t thread) {
        if (inside[thread].fetch_add(1) != 0)
          shared = true;
        std::this_thread::yield();
        --inside[thread];
      });
  });
  BOOST_TEST(!shared);
}

BOOST_AUTO_TEST_CASE(other_threads_take_items_while_one_is_busy) {
  Executor executor("share", 2);
  // Each of the two items waits for the other: one thread would never end.
  std::promise<void> entered[2];
  std::atomic<bool> alone = false;
  run(executor, [&] {
    executor.parallel_for(2, [&](size_t item, uint32_t) {
      entered[item].set_value();
      auto other = entered[1 - item].get_future();
      if (other.wait_for(std::chrono::seconds(30)) != std::future_status::ready)
        alone = true; // Boost's checks are for one thread
    });
  });
  BOOST_TEST(!alone);
}

BOOST_AUTO_TEST_CASE(an_exception_of_a_body_is_rethrown_once) {
  Executor executor("throw", 3);
  for (size_t bad : {0, 5, 9}) {
    auto caught = run(executor, [&]() -> std::string {
      try {
        executor.parallel_for(10, [&](size_t item, uint32_t) {
          if (item == bad)
            throw std::runtime_error("item " + std::to_string(item));
        });
      } catch (const std::runtime_error& error) {
        return error.what();
      }
      return "nothing";
    });
    BOOST_TEST(caught == "item " + std::to_string(bad));
  }
  std::atomic<int> visits = 0;
  run(executor,
      [&] { executor.parallel_for(10, [&](size_t, uint32_t) { ++visits; }); });
  BOOST_TEST(visits == 10);
}

BOOST_AUTO_TEST_CASE(destruction_finishes_the_running_task_and_drops_others) {
  auto token = std::make_shared<int>(0);
  std::atomic<bool> finished = false;
  std::atomic<bool> later = false;
  std::promise<void> started;
  std::promise<void> go_on;
  auto released = go_on.get_future().share();
  std::thread destroyer;
  {
    auto executor = std::make_unique<Executor>("drop", 2);
    auto* raw = executor.get();
    executor->submit([&, raw, token] {
      started.set_value();
      released.wait();
      std::atomic<int> visits = 0;
      raw->parallel_for(8, [&](size_t, uint32_t) { ++visits; });
      finished = visits == 8;
    });
    started.get_future().wait();
    for (int i = 0; i < 3; ++i)
      executor->submit([&later, token] { later = true; });
    BOOST_TEST(executor->queued() == 3u);
    destroyer = std::thread(
      [executor = std::move(executor)]() mutable { executor.reset(); });
    // Dropped tasks let go of the token before the running one ends.
    while (token.use_count() > 2)
      std::this_thread::yield();
  }
  go_on.set_value();
  destroyer.join();
  BOOST_TEST(finished);
  BOOST_TEST(!later);
  BOOST_TEST(token.use_count() == 1);
}

BOOST_AUTO_TEST_CASE(threads_are_named_and_round_to_nearest) {
  Executor executor("worker:0", 2);
  std::mutex mutex;
  std::set<std::string> names;
  std::atomic<bool> other_rounding = false;
  run(executor, [&] {
    std::promise<void> entered[2];
    executor.parallel_for(2, [&](size_t item, uint32_t) {
      char name[16];
      pthread_getname_np(pthread_self(), name, sizeof name);
      {
        std::unique_lock lock(mutex);
        names.insert(name);
      }
      if (fegetround() != FE_TONEAREST)
        other_rounding = true;
      entered[item].set_value();
      entered[1 - item].get_future().wait();
    });
  });
  BOOST_TEST(!other_rounding);
  BOOST_TEST((names == std::set<std::string>{"worker:0", "worker:0.1"}));
}

BOOST_AUTO_TEST_SUITE_END()
