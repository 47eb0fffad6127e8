#include "actors/compute/rank_statistics.hpp"
#include "actors/replica/group_statistics.hpp"
#include "kernels/base/buffer.hpp"
#include "kernels/collective/shared_reducer.hpp"
#include "kernels/collective/shared_segment.hpp"
#include "kernels/engine/parameter_gate.hpp"
#include "tests/unit/actors/collectives/loopback.hpp"

#include <boost/test/unit_test.hpp>

#include <atomic>
#include <chrono>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <memory>
#include <utility>
#include <vector>

using namespace troupe;
using namespace troupe::test;

namespace group_statistics {
namespace {

using Filled = std::vector<std::vector<uint32_t>>;
using Values = std::vector<double>;

constexpr uint32_t all_ranks = 7;
constexpr size_t most = 5;

/// Their sum has other bits in another order.
Values values_of(uint32_t rank, size_t sum, size_t count) {
  Values out;
  for (size_t i = 0; i < count; ++i)
    out.push_back(1.0 / (3.0 + 7.0 * rank + static_cast<double>(11 * sum + i)));
  return out;
}

uint64_t rows_of(uint32_t rank) {
  return 2 + rank;
}

RankShares shares_of(const std::vector<uint32_t>& ranks, size_t sum,
                     size_t count) {
  RankShares out{all_ranks};
  for (auto rank : ranks)
    out.put(rank, {values_of(rank, sum, count), rows_of(rank)});
  return out;
}

RankShare whole_sum(const Filled& filled, size_t sum, size_t count) {
  std::vector<uint32_t> ranks;
  for (const auto& own : filled)
    ranks.insert(ranks.end(), own.begin(), own.end());
  return shares_of(ranks, sum, count).take_sum();
}

/// A group in one memory, or over streams.
class Group {
public:
  Group(uint32_t members, bool streams, std::vector<uint64_t> epochs = {})
    : control_(SharedReducer::control_bytes(members)) {
    SharedReducer::prepare(control_.data(), members);
    auto mesh = full_mesh(streams ? members : 0);
    for (uint32_t rank = 0; rank < members; ++rank) {
      const ReducerLayout layout{rank, members, {}, 0};
      StreamOptions options;
      options.epoch = epochs.empty() ? 1 : epochs[rank];
      if (streams)
        reducers_.push_back(std::make_unique<StreamReducer>(
          layout, std::move(mesh[rank]), options));
      else
        reducers_.push_back(
          std::make_unique<SharedReducer>(control_.data(), layout));
      rooms_.emplace_back(statistics_elements(members, all_ranks, most));
    }
  }

  Reducer& reducer(uint32_t rank) { return *reducers_[rank]; }

  GroupStatistics
  member(const Filled& filled, uint32_t rank,
         std::chrono::milliseconds patience = std::chrono::seconds{60}) {
    GroupStatistics::Calls calls;
    calls.broadcast = [this, rank, patience](float* data, size_t count,
                                             uint32_t root) {
      const auto deadline = SteadyClock::now() + patience;
      return reducer(rank).broadcast(data, count, root, deadline).end
             == CollectiveEnd::done;
    };
    calls.end = [this, rank](const std::string& reason) {
      reducer(rank).abort(reason);
    };
    return {filled, rank, most, rooms_[rank].data(), std::move(calls)};
  }

private:
  SharedSegment control_;
  std::vector<std::unique_ptr<Reducer>> reducers_;
  std::vector<Buffer> rooms_;
};

/// How many members give up what they do at once.
uint32_t give_up(uint32_t members,
                 const std::function<void(uint32_t rank)>& work) {
  std::atomic<uint32_t> count{0};
  at_once(members, [&](uint32_t rank) {
    try {
      work(rank);
    } catch (const PassAbandoned&) {
      ++count;
    }
  });
  return count;
}

void over_both(const std::function<void(bool streams)>& check) {
  for (bool streams : {false, true})
    BOOST_TEST_CONTEXT("streams " << streams)
  check(streams);
}

} // namespace
} // namespace group_statistics

BOOST_AUTO_TEST_SUITE(group_statistics)

// I3: whoever has which ranks
BOOST_AUTO_TEST_CASE(each_member_has_the_sum_of_all_ranks_along_the_tree) {
  const size_t counts[] = {2, 5, 1, 5};
  const Filled deals[] = {
    {{0, 1, 2}, {3, 4}, {5, 6}},
    {{0, 1, 2, 3, 4, 5, 6}},
    {{0, 1, 3}, {5}, {}}, // ranks and a member without samples
    {{}, {2}, {}, {4}},
  };
  over_both([&](bool streams) {
    for (const auto& filled : deals) {
      const auto members = static_cast<uint32_t>(filled.size());
      Group group{members, streams};
      std::vector<std::vector<RankShare>> found(members);
      std::vector<Values> said(members);
      at_once(members, [&](uint32_t rank) {
        auto own = group.member(filled, rank);
        for (int pass = 0; pass < 3; ++pass) {
          for (size_t sum = 0; sum < 4 && !filled[rank].empty(); ++sum) {
            auto shares = shares_of(filled[rank], sum, counts[sum]);
            own.gather(shares);
            found[rank].push_back(shares.take_sum());
          }
          // In the second pass the last one that has samples says so.
          const bool says = pass == 1 && !filled[rank].empty()
                            && filled[rank].back() >= 4;
          said[rank].push_back(own.any(says) ? 1 : 0);
        }
      });
      for (uint32_t rank = 0; rank < members; ++rank) {
        BOOST_TEST(said[rank] == (Values{0, 1, 0}),
                   boost::test_tools::per_element());
        BOOST_REQUIRE(found[rank].size() == (filled[rank].empty() ? 0u : 12u));
        for (size_t i = 0; i < found[rank].size(); ++i) {
          const auto whole = whole_sum(filled, i % 4, counts[i % 4]);
          BOOST_TEST(found[rank][i].values == whole.values,
                     boost::test_tools::per_element());
          BOOST_TEST(found[rank][i].rows == whole.rows);
        }
      }
    }
  });
}

BOOST_AUTO_TEST_CASE(passes_of_all_members_meet_in_each_sum) {
  const Filled filled{{0, 1, 2}, {3, 5, 6}};
  Group group{2, false};
  std::vector<std::vector<Values>> found(all_ranks);
  std::atomic<uint64_t> rows{0};
  at_once(2, [&](uint32_t member) {
    auto peers = group.member(filled, member);
    RankStatistics all{all_ranks, filled[member], &peers};
    at_once(3, [&](uint32_t i) {
      const auto rank = filled[member][i];
      for (size_t sum = 0; sum < 20; ++sum) {
        auto values = values_of(rank, sum, most);
        rows += all.of(rank).sum(values.data(), most, rows_of(rank));
        found[rank].push_back(values);
      }
    });
    peers.any(false);
  });
  BOOST_TEST(rows == 6u * 20u * whole_sum(filled, 0, most).rows);
  for (const auto& own : filled)
    for (auto rank : own)
      for (size_t sum = 0; sum < 20; ++sum)
        BOOST_TEST(found[rank][sum] == whole_sum(filled, sum, most).values,
                   boost::test_tools::per_element());
}

// Of a member that has died, or left the epoch.
BOOST_AUTO_TEST_CASE(who_waits_for_a_member_that_is_gone_gives_up) {
  over_both([](bool streams) {
    const Filled filled{{0, 1}, {2, 3}, {}, {4}};
    Group group{4, streams};
    const auto gone = give_up(4, [&](uint32_t rank) {
      auto own = group.member(filled, rank);
      auto shares = shares_of(filled[rank], 0, 2);
      if (rank != 2)
        own.gather(shares);
      if (rank == 3) {
        for (uint32_t other = 0; other < 4; ++other)
          group.reducer(other).abort("member 3 is gone");
        return;
      }
      auto next = shares_of(filled[rank], 1, 2);
      if (rank != 2)
        own.gather(next);
      else
        own.any(false);
    });
    BOOST_TEST(gone == 3u);
  });
}

BOOST_AUTO_TEST_CASE(nobody_waits_past_the_deadline) {
  over_both([](bool streams) {
    const Filled filled{{0, 1}, {2, 3}};
    Group group{2, streams};
    auto own = group.member(filled, 0, std::chrono::milliseconds{20});
    auto shares = shares_of(filled[0], 0, 2);
    BOOST_CHECK_THROW(own.gather(shares), PassAbandoned);
    BOOST_TEST(shares.size() == 2u);
  });
}

// By lengths, which the group compares, or by what the blocks say.
BOOST_AUTO_TEST_CASE(members_at_different_sums_take_nothing_from_each_other) {
  over_both([](bool streams) {
    const std::vector<std::pair<Filled, bool>> cases{
      {{{0, 1, 2}, {3, 4}, {5}}, false},
      {{{0, 1, 2}, {3, 4}, {5}}, true},
      {{{0}, {4}, {5}}, false},
      {{{0}, {4}, {}}, false},
      {{{0}, {4}, {}}, true}};
    for (const auto& one : cases) {
      const auto& filled = one.first;
      const bool is_over = one.second;
      Group group{3, streams};
      const auto gone = give_up(3, [&](uint32_t rank) {
        auto own = group.member(filled, rank);
        auto shares = shares_of(filled[rank], 0, rank == 1 ? 4 : 3);
        if (filled[rank].empty() || (is_over && rank == 1))
          own.any(false);
        else
          own.gather(shares);
      });
      BOOST_TEST(gone == 3u);
    }
  });
}

BOOST_AUTO_TEST_CASE(a_peer_that_says_no_count_ends_the_group) {
  constexpr double inf = std::numeric_limits<double>::infinity();
  constexpr size_t block = 16 * sizeof(double) / sizeof(float);
  struct Says {
    double count, rows;
    bool asks;  ///< has samples
    bool takes; ///< goes on
  };
  const Says cases[] = {{most, 3, true, true},
                        {-1, 3, true, false},
                        {1e300, 3, true, false},
                        {std::nan(""), 3, true, false},
                        {most, -1, true, false},
                        {most, 1e300, true, false},
                        {most, std::nan(""), true, false},
                        {most, 2.5, true, false},
                        {inf, 3, false, false},
                        {most + 1, 3, false, false},
                        {std::nan(""), 3, false, false},
                        {0.5, 3, false, false}};
  for (const auto& one : cases)
    BOOST_TEST_CONTEXT(one.count << ' ' << one.rows << ' ' << one.asks) {
      const Filled filled{
        one.asks ? std::vector<uint32_t>{0} : std::vector<uint32_t>{}, {4}};
      Group group{2, false};
      const auto gone = give_up(2, [&](uint32_t rank) {
        if (rank == 0) {
          auto own = group.member(filled, 0);
          auto shares = shares_of(filled[0], 0, most);
          if (one.asks)
            own.gather(shares);
          else
            own.any(false);
          return;
        }
        Buffer data(block);
        data.fill(0);
        const double head[] = {0, 0, one.count};
        std::memcpy(data.data(), head, sizeof(head));
        std::memcpy(data.data() + 16, &one.rows, sizeof(double));
        const auto deadline = SteadyClock::now() + std::chrono::seconds{60};
        Buffer other(block);
        if (one.asks)
          group.reducer(1).broadcast(other.data(), block, 0, deadline);
        group.reducer(1).broadcast(data.data(), block, 1, deadline);
      });
      BOOST_TEST(gone == (one.takes ? 0u : 1u));
    }
}

BOOST_AUTO_TEST_CASE(a_sum_of_another_epoch_does_not_count) {
  const Filled filled{{0, 1, 2}, {3, 4}, {5}};
  Group group{3, true, {5, 4, 5}};
  const auto gone = give_up(3, [&](uint32_t rank) {
    auto own = group.member(filled, rank);
    auto shares = shares_of(filled[rank], 0, 3);
    own.gather(shares);
  });
  BOOST_TEST(gone == 3u);
}

BOOST_AUTO_TEST_SUITE_END()
