#include "kernels/collective/sum_program.hpp"
#include "shared_group.hpp"

#include <boost/test/unit_test.hpp>

#include <atomic>
#include <numeric>
#include <random>
#include <thread>

using namespace troupe;
using namespace troupe::shared_group;

BOOST_AUTO_TEST_SUITE(shared_reducer)

namespace {

/// Virtual ranks 0 to 2 members, member m has three of them for even m and
/// one for odd ones; the last member of more than two has none.
SumProgram uneven_program(uint32_t members) {
  SumProgram program;
  for (uint32_t m = 0; m < members; ++m)
    if (m < 2 || m + 1 < members)
      for (uint32_t v = 0; v < (m % 2 == 0 ? 3u : 1u); ++v)
        program.push_back({m, v, 0});
  auto tree = fixed_tree(static_cast<uint32_t>(program.size()));
  for (size_t i = 0; i < program.size(); ++i)
    program[i].merges = tree[i].merges;
  return program;
}

} // namespace

BOOST_AUTO_TEST_CASE(everybody_gets_the_sum_along_the_tree) {
  for (uint32_t members = 1; members <= 9; ++members) {
    Control control(members);
    std::vector<size_t> wrong(members, 0);
    in_threads(members, [&](uint32_t rank) {
      SharedReducer reducer(control.get(), layout_of(rank, members));
      uint64_t round = 0;
      // Short and long by turns, several of each, odd lengths.
      for (size_t count : {1, 4096, 4097, 17, 100'003, 4111, 0, 3, 70'000, 5})
        for (int again = 0; again < 3; ++again, ++round) {
          auto data = filled(rank, 0, count + 16, round);
          data.data()[count] = 42;
          wrong[rank] += reducer.all_reduce(data.data(), count, soon()).end
                         != CollectiveEnd::done;
          for (size_t i = 0; i < count; i += 1 + i / 50) {
            std::vector<float> values;
            for (uint32_t m = 0; m < members; ++m)
              values.push_back(value_of(m, 0, i, round));
            wrong[rank] += data.data()[i] != tree_of(values);
          }
          wrong[rank] += data.data()[count] != 42;
        }
    });
    for (auto count : wrong)
      BOOST_TEST(count == 0u);
  }
}

BOOST_AUTO_TEST_CASE(steps_follow_any_program_in_buckets_of_any_length) {
  for (uint32_t members = 1; members <= 9; ++members)
    for (uint64_t buckets : {1, 2, 7}) {
      constexpr size_t count = 70'013;
      const auto program = uneven_program(members);
      Control control(members);
      std::vector<size_t> wrong(members, 0);
      in_threads(members, [&](uint32_t rank) {
        SharedReducer reducer(control.get(),
                              layout_of(rank, members, cut(count, buckets)));
        for (uint64_t round = 0; round < 3; ++round) {
          std::vector<Buffer> vectors;
          ReduceStep step{round, program, {}, {}, {}};
          for (uint32_t v = 0; v < 3; ++v) {
            vectors.push_back(filled(rank, v, count, round));
            step.vectors.push_back(vectors.back().data());
          }
          // By turns into the first vector and elsewhere.
          Buffer elsewhere(count);
          const auto* result = round % 2 == 0 ? vectors[0].data()
                                              : elsewhere.data();
          step.results = {const_cast<float*>(result)};
          wrong[rank] += take_step(reducer, step, buckets).end
                         != CollectiveEnd::done;
          for (size_t i = 0; i < count; i += 1 + i / 50)
            wrong[rank] += result[i]
                           != sum_of(program, [&](uint32_t m, uint32_t v) {
                                return value_of(m, v, i, round);
                              });
        }
      });
      for (auto number : wrong)
        BOOST_TEST(number == 0u);
    }
}

BOOST_AUTO_TEST_CASE(an_update_is_called_once_an_element_and_reaches_all) {
  for (uint32_t members : {1u, 2u, 3u, 6u}) {
    constexpr size_t count = 50'001;
    constexpr uint32_t buckets = 3;
    const auto program = fixed_tree(members);
    Control control(members);
    std::vector<std::atomic<uint32_t>> calls(count);
    std::vector<size_t> wrong(members, 0);
    in_threads(members, [&](uint32_t rank) {
      SharedReducer reducer(control.get(),
                            layout_of(rank, members, cut(count, buckets)));
      Buffer results[3];
      for (auto& result : results) {
        result = Buffer(count);
        result.fill(1);
      }
      float* at[] = {results[0].data(), results[1].data(), results[2].data()};
      for (uint64_t round = 0; round < 2; ++round) {
        auto vector = filled(rank, 0, count, round);
        ReduceStep step{round,
                        program,
                        {vector.data()},
                        {at[0], at[1], at[2]},
                        [&](uint64_t begin, uint64_t end, const float* sum) {
                          for (auto i = begin; i < end; ++i) {
                            ++calls[i];
                            for (uint32_t k = 0; k < 3; ++k)
                              at[k][i] = at[k][i] * 2 + sum[i - begin] * k;
                          }
                        }};
        wrong[rank] += take_step(reducer, step, buckets).end
                       != CollectiveEnd::done;
      }
      for (size_t i = 0; i < count; ++i)
        for (uint32_t k = 0; k < 3; ++k) {
          float want = 1;
          for (uint64_t round = 0; round < 2; ++round)
            want = want * 2 + sum_of(program, [&](uint32_t m, uint32_t) {
                                return value_of(m, 0, i, round);
                              }) * k;
          wrong[rank] += results[k].data()[i] != want;
        }
    });
    for (auto number : wrong)
      BOOST_TEST(number == 0u);
    for (const auto& number : calls)
      BOOST_REQUIRE_EQUAL(number.load(), 2u);
  }
}

BOOST_AUTO_TEST_CASE(who_finishes_first_sums_what_others_have_not_begun) {
  constexpr size_t count = 40'000;
  Control control(2);
  Buffer data[2] = {filled(0, 0, count, 0), filled(1, 0, count, 0)};
  Buffer results[2] = {Buffer(count), Buffer(count)};
  uint64_t updated[2] = {};
  const auto step_of = [&](uint32_t rank) {
    return ReduceStep{0,
                      fixed_tree(2),
                      {data[rank].data()},
                      {results[rank].data()},
                      [&updated, rank](uint64_t begin, uint64_t end,
                                       const float*) {
                        updated[rank] += end - begin;
                      }};
  };
  SharedReducer first(control.get(),
                      layout_of(0, 2, {{count / 2, count}, {0, count / 2}}));
  SharedReducer second(control.get(),
                       layout_of(1, 2, {{count / 2, count}, {0, count / 2}}));
  first.start(step_of(0));
  first.ready(0);
  first.progress();
  BOOST_TEST(updated[0] == 0u); // the other has not come
  second.start(step_of(1));
  second.ready(0);
  second.progress();
  BOOST_TEST(updated[1] > 0u);
  BOOST_TEST(updated[1] < count / 2); // its own run only
  first.ready(1);
  second.ready(1);
  BOOST_TEST((first.finish(soon()).end == CollectiveEnd::done));
  BOOST_TEST(updated[0] + updated[1] == count);
  BOOST_TEST((second.finish(soon()).end == CollectiveEnd::done));
  BOOST_TEST(updated[0] + updated[1] == count);
}

BOOST_AUTO_TEST_CASE(members_may_share_their_results) {
  constexpr size_t count = 30'000;
  Control control(3);
  Buffer shared(count);
  shared.fill(1);
  std::atomic<size_t> wrong = 0;
  in_threads(3, [&](uint32_t rank) {
    SharedReducer reducer(control.get(), layout_of(rank, 3, {{0, count}}));
    auto vector = filled(rank, 0, count, 0);
    ReduceStep step{0,
                    fixed_tree(3),
                    {vector.data()},
                    {shared.data()},
                    [&](uint64_t begin, uint64_t end, const float* sum) {
                      for (auto i = begin; i < end; ++i)
                        shared.data()[i] += sum[i - begin];
                    }};
    wrong += take_step(reducer, step, 1).end != CollectiveEnd::done;
  });
  BOOST_TEST(wrong == 0u);
  for (size_t i = 0; i < count; ++i)
    BOOST_REQUIRE_EQUAL(shared.data()[i],
                        1 + sum_of(fixed_tree(3), [&](uint32_t m, uint32_t) {
                          return value_of(m, 0, i, 0);
                        }));
}

BOOST_AUTO_TEST_CASE(random_steps_with_random_pauses_are_all_right) {
  constexpr uint32_t members = 3;
  constexpr size_t count = 20'000;
  constexpr uint32_t buckets = 4;
  Control control(members);
  std::vector<size_t> wrong(members, 0);
  in_threads(members, [&](uint32_t rank) {
    std::mt19937 own(rank), common(5);
    const auto pauses = [&] {
      const auto kind = own() % 20;
      if (kind == 0)
        std::this_thread::sleep_for(std::chrono::microseconds{own() % 300});
      else if (kind < 3)
        std::this_thread::yield();
    };
    SharedReducer reducer(control.get(),
                          layout_of(rank, members, cut(count, buckets)));
    Buffer data(count);
    for (uint64_t round = 0; round < 2'000; ++round) {
      const auto kind = common() % 3;
      const size_t length = kind == 0   ? count
                            : kind == 1 ? 1 + common() % 4'096
                                        : 1 + common() % count;
      for (size_t i = 0; i < length; i += 1 + length / 64)
        data.data()[i] = value_of(rank, 0, i, round);
      pauses();
      CollectiveResult ended;
      if (kind == 0) {
        reducer.start(
          {round, fixed_tree(members), {data.data()}, {data.data()}, {}});
        for (uint32_t b = 0; b < buckets; ++b) {
          pauses();
          reducer.ready(b);
          if (own() % 2 == 0)
            reducer.progress();
        }
        ended = reducer.finish(soon());
      } else {
        ended = reducer.all_reduce(data.data(), length, soon());
      }
      wrong[rank] += ended.end != CollectiveEnd::done;
      for (size_t i = 0; i < length; i += 1 + length / 64)
        wrong[rank] +=
          data.data()[i]
          != tree_of({value_of(0, 0, i, round), value_of(1, 0, i, round),
                      value_of(2, 0, i, round)});
    }
  });
  for (auto number : wrong)
    BOOST_TEST(number == 0u);
}

BOOST_AUTO_TEST_CASE(counters_pass_the_ends_of_their_words) {
  for (uint64_t first : {(uint64_t{1} << 16) - 5, (uint64_t{1} << 32) - 5}) {
    Control control(2, first);
    std::atomic<size_t> wrong = 0;
    in_threads(2, [&](uint32_t rank) {
      SharedReducer reducer(control.get(), layout_of(rank, 2, {{0, 10'000}}));
      Buffer data(10'000);
      for (uint64_t round = 0; round < 20; ++round) {
        data.fill(1);
        auto ended =
          round % 2 == 0
            ? reducer.all_reduce(data.data(), round % 4 == 0 ? 9 : 10'000,
                                 soon())
            : take_step(
              reducer, {round, fixed_tree(2), {data.data()}, {data.data()}, {}},
              1);
        wrong += ended.end != CollectiveEnd::done || data.data()[8] != 2;
      }
    });
    BOOST_TEST(wrong == 0u);
  }
}

BOOST_AUTO_TEST_SUITE_END()
