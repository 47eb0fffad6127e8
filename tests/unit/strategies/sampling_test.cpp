#include "strategies/sampling.hpp"

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <numeric>

using namespace troupe;

BOOST_AUTO_TEST_SUITE(sampling)

namespace {

/// Returns the samples of a step in the order of its virtual ranks.
std::vector<uint64_t> samples_of(Sampling& sampling, uint64_t step,
                                 uint32_t virtual_ranks) {
  std::vector<uint64_t> out;
  std::vector<uint64_t> part;
  for (uint32_t v = 0; v < virtual_ranks; ++v) {
    sampling.indices(step, v, part);
    out.insert(out.end(), part.begin(), part.end());
  }
  return out;
}

std::vector<uint64_t> samples_of_epoch(Sampling& sampling, uint64_t epoch,
                                       uint32_t virtual_ranks) {
  std::vector<uint64_t> out;
  auto steps = sampling.steps_per_epoch();
  for (uint64_t i = 0; i < steps; ++i) {
    auto part = samples_of(sampling, epoch * steps + i, virtual_ranks);
    out.insert(out.end(), part.begin(), part.end());
  }
  return out;
}

} // namespace

BOOST_AUTO_TEST_CASE(an_epoch_ends_with_a_shorter_step) {
  auto sampling = Sampling{0, 103, 10, 4};
  BOOST_TEST(sampling.steps_per_epoch() == 11u);
  BOOST_TEST(sampling.step(0).count == 10u);
  auto last = sampling.step(10);
  BOOST_TEST(last.data_epoch == 0u);
  BOOST_TEST(last.first == 100u);
  BOOST_TEST(last.count == 3u);
  auto next = sampling.step(11);
  BOOST_TEST(next.data_epoch == 1u);
  BOOST_TEST(next.first == 0u);
  BOOST_TEST(next.count == 10u);
}

BOOST_AUTO_TEST_CASE(a_batch_larger_than_the_data_is_the_data) {
  auto sampling = Sampling{0, 7, 64, 4};
  BOOST_TEST(sampling.steps_per_epoch() == 1u);
  BOOST_TEST(sampling.step(5).data_epoch == 5u);
  BOOST_TEST(sampling.step(5).count == 7u);
}

BOOST_AUTO_TEST_CASE(virtual_ranks_cut_a_step_evenly_and_in_order) {
  // PROTOCOL 1; a short step leaves some virtual ranks without a sample.
  for (uint32_t v = 1; v <= 17; ++v)
    for (uint64_t samples : {1, 16, 17, 40}) {
      auto sampling = Sampling{0, samples, 17, v};
      for (uint64_t step = 0; step < sampling.steps_per_epoch(); ++step) {
        auto all = sampling.step(step);
        auto next = all.first;
        for (uint32_t rank = 0; rank < v; ++rank) {
          auto part = sampling.rank(step, rank);
          BOOST_TEST(part.data_epoch == all.data_epoch);
          BOOST_TEST(part.first == next);
          BOOST_TEST(part.count >= all.count / v);
          BOOST_TEST(part.count <= (all.count + v - 1) / v);
          next += part.count;
        }
        BOOST_TEST(next == all.first + all.count);
      }
    }
}

BOOST_AUTO_TEST_CASE(no_rank_gets_a_sample_alone_where_it_needs_two) {
  // A batch norm learns nothing of one: it is its own mean.
  for (uint32_t v = 1; v <= 9; ++v)
    for (uint32_t batch = 1; batch <= 20; ++batch)
      for (uint64_t samples = 1; samples <= 45; ++samples) {
        auto sampling = Sampling{0, samples, batch, v, 2};
        uint64_t next = 0;
        uint64_t lone = 0;
        uint32_t most = 0;
        for (uint64_t step = 0; step < sampling.steps_per_epoch(); ++step) {
          const auto all = sampling.step(step);
          BOOST_REQUIRE(all.first == next && all.count <= batch);
          lone += all.count == 1;
          uint32_t filled = 0;
          for (uint32_t rank = 0; rank < v; ++rank) {
            const auto part = sampling.rank(step, rank);
            BOOST_REQUIRE(part.first == next);
            BOOST_REQUIRE(part.count != 1 || all.count == 1);
            filled += part.count > 0;
            most = std::max(most, part.count);
            next += part.count;
          }
          BOOST_REQUIRE(filled == sampling.filled(step));
          BOOST_REQUIRE(next == all.first + all.count);
        }
        BOOST_REQUIRE(next == samples);
        BOOST_REQUIRE(most == sampling.max_of_rank());
        BOOST_REQUIRE(lone == sampling.short_steps());
        BOOST_REQUIRE(lone == 0 || samples == 1 || batch < 3);
      }
}

BOOST_AUTO_TEST_CASE(ranks_that_need_one_sample_have_what_they_had) {
  for (uint32_t v : {1u, 3u, 4u, 7u})
    for (uint64_t samples : {1, 5, 65, 70}) {
      auto sampling = Sampling{0, samples, 16, v};
      BOOST_TEST(sampling.short_steps() == 0u);
      for (uint64_t step = 0; step < sampling.steps_per_epoch(); ++step) {
        const auto all = sampling.step(step);
        uint32_t filled = 0;
        for (uint32_t rank = 0; rank < v; ++rank) {
          const auto part = sampling.rank(step, rank);
          BOOST_TEST(part.first == all.first + uint64_t{rank} * all.count / v);
          filled += part.count > 0;
          BOOST_TEST(part.count <= sampling.max_of_rank());
        }
        BOOST_TEST(filled == sampling.filled(step));
      }
    }
}

BOOST_AUTO_TEST_CASE(each_sample_comes_once_in_a_data_epoch) {
  // I6.
  for (uint64_t samples : {1, 2, 63, 64, 65, 1000})
    for (uint32_t v : {1u, 3u, 4u, 17u}) {
      auto sampling = Sampling{7, samples, 64, v};
      std::vector<uint64_t> all(samples);
      std::iota(all.begin(), all.end(), 0u);
      for (uint64_t epoch = 0; epoch < 3; ++epoch) {
        auto got = samples_of_epoch(sampling, epoch, v);
        std::ranges::sort(got);
        BOOST_TEST(got == all, boost::test_tools::per_element());
      }
    }
}

BOOST_AUTO_TEST_CASE(a_step_takes_the_same_samples_for_any_number_of_ranks) {
  auto one = Sampling{3, 500, 32, 1};
  auto many = Sampling{3, 500, 32, 8};
  for (uint64_t step = 0; step < 40; ++step)
    BOOST_TEST(samples_of(one, step, 1) == samples_of(many, step, 8),
               boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(samples_do_not_depend_on_what_was_asked_before) {
  // A worker that joins late, or takes over ranks, sees the same samples.
  auto steady = Sampling{3, 100, 16, 4};
  std::vector<std::vector<uint64_t>> expected;
  for (uint64_t step = 0; step < 21; ++step)
    expected.push_back(samples_of(steady, step, 4));
  auto jumping = Sampling{3, 100, 16, 4};
  for (uint64_t i = 0; i < 21; ++i) {
    auto step = i * 8 % 21; // visits each, across three epochs and back
    BOOST_TEST(samples_of(jumping, step, 4) == expected[step],
               boost::test_tools::per_element());
  }
}

BOOST_AUTO_TEST_CASE(epochs_and_seeds_are_permuted_differently) {
  auto a = Sampling{0, 1000, 100, 4};
  auto b = Sampling{1, 1000, 100, 4};
  auto first = samples_of_epoch(a, 0, 4);
  auto second = samples_of_epoch(a, 1, 4);
  auto other = samples_of_epoch(b, 0, 4);
  std::vector<uint64_t> identity(1000);
  std::iota(identity.begin(), identity.end(), 0u);
  BOOST_TEST((first != second));
  BOOST_TEST((first != other));
  BOOST_TEST((second != other));
  BOOST_TEST((first != identity));
}

BOOST_AUTO_TEST_CASE(every_permutation_is_about_as_likely) {
  // 6,000 epochs of three samples: each of the 6 orders about 1,000 times.
  auto sampling = Sampling{42, 3, 3, 1};
  std::vector<uint64_t> out;
  std::vector<int> seen(27);
  for (uint64_t epoch = 0; epoch < 6000; ++epoch) {
    sampling.indices(epoch, 0, out);
    ++seen[out[0] * 9 + out[1] * 3 + out[2]];
  }
  BOOST_TEST(std::ranges::count(seen, 0) == 21);
  for (auto n : seen)
    BOOST_TEST((n == 0 || (n > 850 && n < 1150)), n);
}

BOOST_AUTO_TEST_CASE(a_large_permutation_mixes_near_and_far) {
  constexpr uint32_t n = 60'000;
  auto sampling = Sampling{0, n, n, 1};
  std::vector<uint64_t> out;
  sampling.indices(0, 0, out);
  double moved = 0;
  for (uint32_t i = 0; i < n; ++i)
    moved += out[i] > i ? out[i] - i : i - out[i];
  BOOST_TEST(moved / n > 0.32 * n); // a uniform permutation: n / 3
  BOOST_TEST(moved / n < 0.35 * n);
}

BOOST_AUTO_TEST_CASE(the_permutation_never_changes_between_releases) {
  // Weights of a seed are the same bits only as long as this holds.
  auto sampling = Sampling{0, 10, 10, 1};
  std::vector<uint64_t> out;
  sampling.indices(0, 0, out);
  BOOST_TEST(out == (std::vector<uint64_t>{4, 3, 0, 6, 5, 1, 8, 2, 9, 7}),
             boost::test_tools::per_element());
  sampling.indices(1, 0, out);
  BOOST_TEST(out == (std::vector<uint64_t>{4, 5, 7, 8, 2, 6, 1, 9, 3, 0}),
             boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(indices_reuses_its_output) {
  auto sampling = Sampling{0, 1000, 100, 4};
  std::vector<uint64_t> out;
  sampling.indices(0, 0, out);
  auto data = out.data();
  for (uint64_t step = 0; step < 30; ++step)
    for (uint32_t v = 0; v < 4; ++v)
      sampling.indices(step, v, out);
  BOOST_TEST(out.data() == data);
}

BOOST_AUTO_TEST_CASE(blocks_have_each_sample_once_in_an_epoch) {
  for (uint64_t samples : {1, 7, 64, 100, 103, 640})
    for (uint32_t block : {1, 3, 16, 200})
      for (uint32_t window : {1, 2, 5}) {
        auto sampling = Sampling{3, samples, 10, 4, 1, {block, window}};
        for (uint64_t epoch = 0; epoch < 4; ++epoch) {
          auto all = samples_of_epoch(sampling, epoch, 4);
          std::sort(all.begin(), all.end());
          std::vector<uint64_t> expected(samples);
          std::iota(expected.begin(), expected.end(), 0);
          BOOST_TEST(all == expected, boost::test_tools::per_element());
        }
      }
}

BOOST_AUTO_TEST_CASE(a_window_has_the_samples_of_its_blocks) {
  // 13 blocks, of which the last has 3 samples; windows of 4.
  constexpr uint32_t block = 10;
  constexpr uint32_t last = 12;
  auto sampling = Sampling{8, 123, 1, 1, 1, {block, 4}};
  bool last_moved = false;
  for (uint64_t epoch = 0; epoch < 6; ++epoch) {
    std::vector<uint64_t> seen;
    std::vector<uint64_t> blocks; // of the window
    size_t left = 0;              // samples of these
    for (auto sample : samples_of_epoch(sampling, epoch, 1)) {
      const auto found = sample / block;
      if (left == 0)
        blocks.clear();
      if (std::find(blocks.begin(), blocks.end(), found) == blocks.end()) {
        BOOST_TEST((std::find(seen.begin(), seen.end(), found) == seen.end()));
        seen.push_back(found);
        blocks.push_back(found);
        left += found == last ? 3 : block;
      }
      BOOST_TEST(blocks.size() <= 4u);
      --left;
    }
    BOOST_TEST(seen.size() == last + 1);
    last_moved = last_moved || seen.back() != last;
  }
  BOOST_TEST(last_moved);
}

BOOST_AUTO_TEST_CASE(blocks_are_mixed_by_seed_and_epoch_alone) {
  const auto epoch_of = [](uint64_t seed, uint64_t epoch, uint32_t ranks) {
    auto sampling = Sampling{seed, 500, 32, ranks, 1, {20, 3}};
    return samples_of_epoch(sampling, epoch, ranks);
  };
  const auto first = epoch_of(1, 0, 4);
  BOOST_TEST(first == epoch_of(1, 0, 7), boost::test_tools::per_element());
  BOOST_TEST((first != epoch_of(1, 1, 4)));
  BOOST_TEST((first != epoch_of(2, 0, 4)));
  // Whoever asks for steps in any order gets the same.
  auto sampling = Sampling{1, 500, 32, 1, 1, {20, 3}};
  std::vector<uint64_t> part;
  for (const uint64_t step : {15, 0, 9, 31, 2, 1, 15}) {
    sampling.indices(step, 0, part);
    const auto all = epoch_of(1, step / 16, 1);
    const auto begin = all.begin() + static_cast<ptrdiff_t>(step % 16 * 32);
    BOOST_TEST(std::equal(part.begin(), part.end(), begin));
  }
  // Neighbours are apart.
  size_t beside = 0;
  for (size_t i = 1; i < first.size(); ++i)
    beside += first[i] == first[i - 1] + 1 ? 1 : 0;
  BOOST_TEST(beside < 30u);
}

BOOST_AUTO_TEST_SUITE_END()
