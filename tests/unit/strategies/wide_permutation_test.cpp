#include "strategies/sampling.hpp"
#include "strategies/wide_permutation.hpp"

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <numeric>
#include <vector>

using namespace troupe;

BOOST_AUTO_TEST_SUITE(wide_permutation)

BOOST_AUTO_TEST_CASE(each_number_has_one_position) {
  for (uint64_t size : {1, 2, 3, 4, 7, 9, 10, 63, 64, 65, 1000, 4099})
    for (uint64_t key : {0, 1, 77}) {
      const WidePermutation permutation{key, size};
      std::vector<uint64_t> all;
      for (uint64_t i = 0; i < size; ++i) {
        all.push_back(permutation.at(i));
        BOOST_REQUIRE(permutation.position_of(all.back()) == i);
      }
      std::sort(all.begin(), all.end());
      std::vector<uint64_t> expected(size);
      std::iota(expected.begin(), expected.end(), uint64_t{0});
      BOOST_TEST(all == expected, boost::test_tools::per_element());
    }
}

BOOST_AUTO_TEST_CASE(parts_of_large_ones_go_there_and_back) {
  // A map whose inverse is defined at every position, and at every number, of
  // a part is a bijection as far as that part goes.
  constexpr uint64_t part = 20'000;
  for (uint64_t size :
       {(uint64_t{1} << 32) + 1, uint64_t{5} << 30, (uint64_t{1} << 40) - 3,
        (uint64_t{3} << 60) + 11, uint64_t{1} << 63}) {
    const WidePermutation permutation{size ^ 5, size};
    for (uint64_t first : {uint64_t{0}, size / 2, size - part})
      for (auto i = first; i < first + part; ++i) {
        const auto number = permutation.at(i);
        BOOST_REQUIRE(number < size);
        BOOST_REQUIRE(permutation.position_of(number) == i);
        const auto position = permutation.position_of(i);
        BOOST_REQUIRE(position < size);
        BOOST_REQUIRE(permutation.at(position) == i);
      }
  }
}

BOOST_AUTO_TEST_CASE(neighbours_go_anywhere) {
  constexpr uint64_t size = uint64_t{5} << 30;
  constexpr uint64_t draws = 100'000;
  constexpr uint64_t buckets = 20;
  const WidePermutation permutation{3, size};
  std::vector<uint64_t> seen(buckets * buckets);
  double moved = 0;
  auto before = permutation.at(0) / (size / buckets);
  for (uint64_t i = 1; i <= draws; ++i) {
    const auto number = permutation.at(i);
    const auto bucket = number / (size / buckets);
    ++seen[before * buckets + bucket];
    before = bucket;
    moved += static_cast<double>(number);
  }
  BOOST_TEST(moved / draws > 0.495 * size);
  BOOST_TEST(moved / draws < 0.505 * size);
  // Pairs of neighbours in 400 cells: 250 in each, and chi-squared within five
  // deviations of the 399 that it is on average.
  double squares = 0;
  for (const auto count : seen) {
    const auto away = static_cast<double>(count) - 250.0;
    squares += away * away / 250.0;
  }
  BOOST_TEST(squares > 399 - 5 * 28.2);
  BOOST_TEST(squares < 399 + 5 * 28.2);
}

BOOST_AUTO_TEST_CASE(keys_and_orders_differ) {
  constexpr uint64_t size = uint64_t{5} << 30;
  const WidePermutation a{3, size};
  const WidePermutation b{4, size};
  uint64_t same = 0;
  for (uint64_t i = 0; i < 10'000; ++i)
    same += a.at(i) == b.at(i) || a.at(i) == i ? 1 : 0;
  BOOST_TEST(same == 0u);
}

BOOST_AUTO_TEST_CASE(the_wide_permutation_never_changes_between_releases) {
  const WidePermutation permutation{0, uint64_t{5} << 30};
  std::vector<uint64_t> out;
  for (uint64_t i : {uint64_t{0}, uint64_t{1}, uint64_t{1} << 32})
    out.push_back(permutation.at(i));
  BOOST_TEST(out == (std::vector<uint64_t>{4907109158, 3555500060, 978282455}),
             boost::test_tools::per_element());
}

namespace {

constexpr uint64_t many = uint64_t{5} << 30;

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

} // namespace

BOOST_AUTO_TEST_CASE(steps_beyond_the_32nd_bit_have_samples_of_their_own) {
  constexpr uint32_t batch = 1 << 20;
  auto sampling = Sampling{9, many, batch, 4};
  BOOST_TEST(sampling.steps_per_epoch() == 5u << 10);
  const auto last = sampling.step(5u * 1024 - 1);
  BOOST_TEST(last.first + last.count == many);
  std::vector<uint64_t> all;
  for (uint64_t step : {0, 4096, 5119}) {
    const auto some = samples_of(sampling, step, 4);
    BOOST_TEST(some == samples_of(sampling, step, 4),
               boost::test_tools::per_element());
    all.insert(all.end(), some.begin(), some.end());
  }
  // Who has other ranks, or came later, has the same.
  auto other = Sampling{9, many, batch, 7};
  BOOST_TEST(
    (samples_of(other, 4096, 7)
     == std::vector<uint64_t>(all.begin() + batch, all.begin() + 2 * batch)));
  const auto beyond = std::count_if(all.begin(), all.end(), [](uint64_t x) {
    return x >= uint64_t{1} << 32;
  });
  BOOST_TEST(beyond > 3 * batch / 5.1);
  BOOST_TEST(beyond < 3 * batch / 4.9);
  std::sort(all.begin(), all.end());
  BOOST_TEST((std::adjacent_find(all.begin(), all.end()) == all.end()));
  BOOST_TEST(all.back() < many);
  BOOST_TEST((samples_of(sampling, 5120, 4) != samples_of(sampling, 0, 4)));
}

BOOST_AUTO_TEST_CASE(blocks_of_more_samples_are_mixed_in_windows) {
  constexpr uint32_t block = 1 << 14;
  constexpr uint32_t batch = 1 << 17; // a window
  auto sampling = Sampling{2, many + 5, batch, 4, 1, {block, 8}};
  std::vector<uint64_t> blocks;
  for (uint64_t step : {0, 3, 40'000}) {
    std::vector<uint64_t> own;
    for (const auto sample : samples_of(sampling, step, 4)) {
      BOOST_REQUIRE(sample < many + 5);
      own.push_back(sample / block);
    }
    std::sort(own.begin(), own.end());
    own.erase(std::unique(own.begin(), own.end()), own.end());
    // Behind the last block, which has 5 samples, steps and windows part.
    BOOST_TEST(own.size() <= 16u);
    blocks.insert(blocks.end(), own.begin(), own.end());
  }
  std::sort(blocks.begin(), blocks.end());
  BOOST_TEST(
    (std::adjacent_find(blocks.begin(), blocks.end()) == blocks.end()));
  // Blocks that are samples themselves are too many for a list, too.
  auto single = Sampling{2, many, 1 << 10, 1, 1, {1, 1 << 10}};
  auto all = samples_of(single, (uint64_t{1} << 22) + 3, 1);
  const auto again = samples_of(single, (uint64_t{1} << 22) + 4, 1);
  all.insert(all.end(), again.begin(), again.end());
  std::sort(all.begin(), all.end());
  BOOST_TEST((std::adjacent_find(all.begin(), all.end()) == all.end()));
  BOOST_TEST(all.back() > uint64_t{1} << 32);
}

BOOST_AUTO_TEST_SUITE_END()
