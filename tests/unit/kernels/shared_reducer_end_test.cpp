#include "kernels/base/error.hpp"
#include "kernels/collective/sum_program.hpp"
#include "shared_group.hpp"

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <atomic>
#include <memory>
#include <random>
#include <stdexcept>
#include <thread>

using namespace troupe;
using namespace troupe::shared_group;

BOOST_AUTO_TEST_SUITE(shared_reducer_end)

BOOST_AUTO_TEST_CASE(an_abort_ends_a_wait_on_every_member_and_what_follows) {
  for (size_t count : {size_t{10}, size_t{50'000}}) {
    Control control(3);
    CollectiveResult ends[2];
    std::atomic<int> goes_on = 0;
    std::thread aborter([&] {
      SharedReducer third(control.get(), layout_of(2, 3));
      third.abort("member 2 has had enough"); // it never comes
    });
    in_threads(2, [&](uint32_t rank) {
      SharedReducer reducer(control.get(), layout_of(rank, 3));
      Buffer data(count);
      data.fill(1);
      ends[rank] = reducer.all_reduce(data.data(), count, soon());
      for (int again = 0; again < 3; ++again)
        goes_on += reducer.all_reduce(data.data(), count, soon()).end
                   != CollectiveEnd::aborted;
    });
    BOOST_TEST(goes_on == 0);
    aborter.join();
    for (const auto& end : ends) {
      BOOST_TEST((end.end == CollectiveEnd::aborted));
      BOOST_TEST(end.reason == "member 2 has had enough");
    }
  }
}

BOOST_AUTO_TEST_CASE(an_abort_from_another_thread_ends_a_step) {
  Control control(2);
  SharedReducer reducer(control.get(), layout_of(0, 2, {{0, 100}}));
  Buffer data(100);
  data.fill(1);
  reducer.start({0, fixed_tree(2), {data.data()}, {data.data()}, {}});
  reducer.ready(0);
  std::thread aborter([&] { reducer.abort("the epoch changes"); });
  const auto ended = reducer.finish(soon());
  aborter.join();
  BOOST_TEST((ended.end == CollectiveEnd::aborted));
  BOOST_TEST(ended.reason == "the epoch changes");
}

BOOST_AUTO_TEST_CASE(
  a_member_that_never_comes_ends_the_others_when_it_is_late) {
  for (size_t count : {100, 50'000}) {
    Control control(3);
    CollectiveResult ends[2];
    in_threads(2, [&](uint32_t rank) {
      SharedReducer reducer(control.get(), layout_of(rank, 3));
      Buffer data(count);
      data.fill(1);
      const auto deadline =
        rank == 0 ? Clock::now() + std::chrono::milliseconds{50} : soon();
      ends[rank] = reducer.all_reduce(data.data(), count, deadline);
    });
    for (const auto& end : ends) {
      BOOST_TEST((end.end == CollectiveEnd::late));
      BOOST_TEST(end.reason.find("member 2") != std::string::npos, end.reason);
    }
    BOOST_TEST(ends[0].reason == ends[1].reason);
  }
}

BOOST_AUTO_TEST_CASE(a_bucket_that_never_comes_is_named) {
  Control control(2);
  Buffer data[2] = {Buffer(100), Buffer(100)};
  for (auto& each : data)
    each.fill(1);
  SharedReducer first(control.get(), layout_of(0, 2, {{50, 100}, {0, 50}}));
  SharedReducer second(control.get(), layout_of(1, 2, {{50, 100}, {0, 50}}));
  second.start({0, fixed_tree(2), {data[1].data()}, {data[1].data()}, {}});
  second.ready(0);
  first.start({0, fixed_tree(2), {data[0].data()}, {data[0].data()}, {}});
  first.ready(0);
  first.ready(1);
  const auto ended = first.finish(Clock::now() + std::chrono::milliseconds{20});
  BOOST_TEST((ended.end == CollectiveEnd::late));
  BOOST_TEST(ended.reason
             == "member 0 waited for member 1 to come to bucket 1 until its "
                "deadline passed");
}

BOOST_AUTO_TEST_CASE(what_members_bring_differently_ends_all_alike) {
  constexpr size_t count = 9'000;
  struct Kind {
    std::function<void(ReducerLayout&, ReduceStep&)> change;
    std::string says;
  };
  const std::vector<Kind> kinds = {
    {[](auto&, auto& step) { step.step = 8; }, "step 8 instead of 7"},
    {[](auto& layout, auto&) { layout.hash = 1; }, "another bucket layout"},
    {[](auto& layout, auto&) {
       layout.buckets = {{0, count - 1}};
     },
     "a number of elements of 8999 instead of 9000"},
    {[](auto& layout, auto&) { layout.buckets = cut(count, 2); },
     "a number of buckets of 2 instead of 1"},
    {[](auto&, auto& step) { step.results.push_back(step.results[0]); },
     "a number of results of 2 instead of 1"},
    {[](auto&, auto& step) { step.update = [](auto, auto, auto) {}; },
     "an update"},
    {[](auto&, auto& step) {
       step.program = {{0, 0, 0}, {2, 0, 1}};
     },
     "another sum"},
    {[](auto&, auto& step) { step.vectors.clear(); }, "0 vectors"},
  };
  for (const auto& kind : kinds) {
    Control control(3);
    CollectiveResult ends[3];
    std::atomic<int> touched = 0;
    in_threads(3, [&](uint32_t rank) {
      auto layout = layout_of(rank, 3, {{0, count}});
      auto data = filled(rank, 0, count, 0);
      ReduceStep step{7, fixed_tree(3), {data.data()}, {data.data()}, {}};
      if (rank == 2)
        kind.change(layout, step);
      SharedReducer reducer(control.get(), layout);
      ends[rank] = take_step(reducer, step,
                             static_cast<uint32_t>(layout.buckets.size()));
      touched += data.data()[5] != value_of(rank, 0, 5, 0);
    });
    BOOST_TEST(touched == 0);
    for (const auto& end : ends) {
      BOOST_TEST((end.end == CollectiveEnd::mismatch), kind.says);
      BOOST_TEST(end.reason.starts_with("member 2 brought"), end.reason);
      BOOST_TEST(end.reason.find(kind.says) != std::string::npos, end.reason);
      BOOST_TEST(end.reason == ends[0].reason);
    }
  }
}

BOOST_AUTO_TEST_CASE(vectors_of_other_lengths_are_an_error_for_everybody) {
  // Both short, both long, one of each, and none beside a step.
  for (auto [first, second] : {std::pair<size_t, size_t>{7, 8},
                               {50'000, 50'001},
                               {7, 50'000},
                               {50'000, 7},
                               {0, 9}}) {
    Control control(2);
    const size_t counts[] = {first, second};
    CollectiveResult ends[2];
    in_threads(2, [&](uint32_t rank) {
      SharedReducer reducer(control.get(), layout_of(rank, 2));
      Buffer data(counts[rank] + 1);
      data.fill(1);
      ends[rank] = reducer.all_reduce(data.data(), counts[rank], soon());
    });
    for (const auto& end : ends) {
      BOOST_TEST((end.end == CollectiveEnd::mismatch));
      BOOST_TEST(end.reason.starts_with("member 1 brought"), end.reason);
    }
  }
}

BOOST_AUTO_TEST_CASE(a_step_beside_an_all_reduce_is_an_error_for_everybody) {
  constexpr size_t count = 9'000;
  for (size_t plain : {size_t{5}, count}) {
    Control control(2);
    CollectiveResult ends[2];
    in_threads(2, [&](uint32_t rank) {
      SharedReducer reducer(control.get(), layout_of(rank, 2, {{0, count}}));
      Buffer data(count);
      data.fill(1);
      ends[rank] =
        rank == 1
          ? reducer.all_reduce(data.data(), plain, soon())
          : take_step(reducer,
                      {0, fixed_tree(2), {data.data()}, {data.data()}, {}}, 1);
    });
    for (const auto& end : ends) {
      BOOST_TEST((end.end == CollectiveEnd::mismatch));
      BOOST_TEST(end.reason
                 == "member 1 brought an all-reduce instead of a step as "
                    "member 0 did");
    }
  }
}

BOOST_AUTO_TEST_CASE(control_memory_of_another_group_is_refused) {
  Control control(2);
  BOOST_CHECK_THROW(SharedReducer(control.get(), layout_of(0, 3)), InputError);
}

// I8: cut off at any moment, a collective is complete for all or for nobody.
BOOST_AUTO_TEST_CASE(an_end_at_any_moment_comes_to_all_at_the_same_collective) {
  constexpr uint32_t members = 3;
  constexpr size_t count = 9'000;
  std::mt19937 random(7);
  uint64_t completed = 0;
  for (int round = 0; round < 300; ++round) {
    Control control(members);
    std::vector<std::unique_ptr<SharedReducer>> reducers;
    for (uint32_t rank = 0; rank < members; ++rank)
      reducers.push_back(std::make_unique<SharedReducer>(
        control.get(), layout_of(rank, members, {{4'000, count}, {0, 4'000}})));
    uint64_t done[members] = {};
    CollectiveResult ends[members];
    std::atomic<uint64_t> wrong = 0;
    std::atomic<uint64_t> begun = 0;
    const auto cut_at = random() % 40;
    std::thread aborter([&, by = random() % members] {
      const auto deadline = soon();
      while (begun < cut_at && Clock::now() < deadline)
        std::this_thread::yield();
      reducers[by]->abort("cut");
    });
    in_threads(members, [&](uint32_t rank) {
      Buffer data(count);
      for (uint64_t step = 0; ends[rank].end == CollectiveEnd::done; ++step) {
        const size_t length = step % 3 == 0 ? 10 : count;
        std::fill_n(data.data(), length, static_cast<float>(rank + step));
        ++begun;
        ends[rank] =
          step % 3 == 2
            ? take_step(
              *reducers[rank],
              {step, fixed_tree(members), {data.data()}, {data.data()}, {}}, 2)
            : reducers[rank]->all_reduce(data.data(), length, soon());
        if (ends[rank].end != CollectiveEnd::done)
          break;
        ++done[rank];
        for (size_t i = 0; i < length; ++i)
          wrong += data.data()[i] != static_cast<float>(3 + 3 * step);
      }
    });
    aborter.join();
    BOOST_TEST(wrong == 0u);
    completed += done[0];
    for (uint32_t rank = 0; rank < members; ++rank) {
      BOOST_TEST(done[rank] == done[0]);
      BOOST_TEST((ends[rank].end == CollectiveEnd::aborted));
      BOOST_TEST(ends[rank].reason == "cut");
    }
  }
  BOOST_TEST(completed > 0u);
}

BOOST_AUTO_TEST_CASE(nobody_waits_for_a_lost_member_inside_a_sum) {
  constexpr size_t count = 5'000;
  for (const bool told : {true, false}) {
    Control control(2);
    std::atomic<bool> inside = false;
    std::atomic<bool> leave = false;
    CollectiveResult end;
    in_threads(2, [&](uint32_t rank) {
      SharedReducer reducer(control.get(), layout_of(rank, 2, {{0, count}}));
      Buffer data(count);
      Buffer sum(count);
      data.fill(1);
      ReduceStep step{0, fixed_tree(2), {data.data()}, {sum.data()}, {}};
      step.update = [&](uint64_t, uint64_t, const float*) {
        inside = inside || rank == 1;
        while (rank == 1 && !leave)
          std::this_thread::yield();
      };
      reducer.start(std::move(step));
      reducer.ready(0);
      if (rank == 1) {
        reducer.finish(soon());
        return;
      }
      while (!inside)
        std::this_thread::yield();
      if (told)
        reducer.lost(1);
      reducer.abort("member 1 died");
      end = reducer.finish(soon());
      leave = true;
    });
    BOOST_TEST((end.end == CollectiveEnd::aborted));
    BOOST_TEST(end.spoils_memory == !told);
  }
}

BOOST_AUTO_TEST_CASE(an_update_that_throws_ends_all) {
  constexpr size_t count = 9'000;
  Control control(2);
  std::atomic<int> thrown = 0, told = 0;
  in_threads(2, [&](uint32_t rank) {
    SharedReducer reducer(control.get(), layout_of(rank, 2, {{0, count}}));
    Buffer data(count);
    data.fill(1);
    try {
      const auto ended = take_step(
        reducer,
        {0,
         fixed_tree(2),
         {data.data()},
         {data.data()},
         [](auto, auto, auto) { throw std::runtime_error("no luck"); }},
        1);
      told += ended.end == CollectiveEnd::aborted
              && ended.reason.ends_with("no luck");
    } catch (const std::runtime_error&) {
      ++thrown;
    }
  });
  BOOST_TEST(thrown > 0);
  BOOST_TEST(thrown + told == 2);
}

BOOST_AUTO_TEST_SUITE_END()
