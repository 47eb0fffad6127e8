#include "strategies/takeover.hpp"

#include <boost/test/unit_test.hpp>

#include <random>

using namespace troupe;

BOOST_AUTO_TEST_SUITE(takeover)

BOOST_AUTO_TEST_CASE(missing_ranks_are_those_that_nobody_holds) {
  using Ranges = std::vector<RankRange>;
  BOOST_TEST((missing_ranks({}, 4) == Ranges{{0, 4}}));
  BOOST_TEST((missing_ranks({{0, 4}}, 4).empty()));
  BOOST_TEST((missing_ranks({{2, 3}, {0, 1}}, 4) == Ranges{{1, 2}, {3, 4}}));
  BOOST_TEST((missing_ranks({{0, 2}, {1, 2}}, 4) == Ranges{{2, 4}}));
}

BOOST_AUTO_TEST_CASE(each_missing_rank_is_computed_by_one_survivor) {
  std::mt19937 random{7};
  for (int run = 0; run < 2000; ++run) {
    const auto ranks = 1 + static_cast<uint32_t>(random() % 33);
    std::vector<RankRange> held;
    std::vector<int> computed(ranks, 0);
    for (uint32_t i = 0; i < random() % 4; ++i) {
      const auto lo = static_cast<uint32_t>(random() % ranks);
      const auto hi = lo + 1 + static_cast<uint32_t>(random() % (ranks - lo));
      held.push_back({lo, hi});
      for (auto rank = lo; rank < hi; ++rank)
        computed[rank] = 1;
    }
    const auto workers = 1 + static_cast<uint32_t>(random() % ranks);
    const auto missing = missing_ranks(held, ranks);
    for (uint32_t worker = 0; worker < workers; ++worker)
      for (auto range :
           takeover_ranks(ranks_of_worker(worker, workers, ranks), missing))
        for (auto rank = range.lo; rank < range.hi; ++rank)
          ++computed[rank];
    for (auto times : computed)
      BOOST_REQUIRE(times == 1);
  }
}

BOOST_AUTO_TEST_SUITE_END()
