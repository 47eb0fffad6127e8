#include "strategies/collective_schedule.hpp"

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <deque>
#include <functional>
#include <map>
#include <numeric>
#include <utility>

using namespace troupe;

BOOST_AUTO_TEST_SUITE(collective_schedule)

namespace {

constexpr uint32_t max_members = 17;
constexpr uint64_t counts[] = {1, 2, 7, 16, 33, 101};

/// How often each member's value is in a sum.
using Terms = std::vector<uint32_t>;

/// All members' vectors, element by element, and what they stage.
struct Cluster {
  Cluster(uint32_t size, uint64_t count)
    : vectors(size, std::vector<Terms>(count, Terms(size, 0))),
      staged(size, std::vector<Terms>(count, Terms(size, 0))) {
    for (uint32_t rank = 0; rank < size; ++rank)
      for (auto& element : vectors[rank])
        element[rank] = 1;
  }

  std::vector<std::vector<Terms>> vectors;
  std::vector<std::vector<Terms>> staged;
  std::vector<uint64_t> sent; ///< elements, per member
};

/// A round reads and writes no element at once, and writes none twice but by
/// staging.
bool is_sound(const Round& round, uint64_t count) {
  std::vector<int> reads(count, 0);
  std::vector<int> writes(count, 0);
  for (const auto& transfer : round) {
    if (transfer.begin >= transfer.end || transfer.end > count)
      return false;
    if (transfer.kind == TransferKind::stage)
      continue;
    auto& used = transfer.kind == TransferKind::send ? reads : writes;
    for (auto i = transfer.begin; i < transfer.end; ++i)
      ++used[i];
  }
  for (uint64_t i = 0; i < count; ++i)
    if (writes[i] > 1 || (writes[i] > 0 && reads[i] > 0))
      return false;
  return true;
}

/// Everybody's schedule under way, each as far as it gets.
class Rehearsal {
public:
  Rehearsal(uint32_t size, uint64_t count,
            const std::function<Schedule(CollectivePlace)>& schedule_of)
    : cluster(size, count), round_(size, 0), given_(size, false) {
    cluster.sent.assign(size, 0);
    for (uint32_t rank = 0; rank < size; ++rank) {
      schedules_.push_back(schedule_of({rank, size, count}));
      for (const auto& one : schedules_.back())
        BOOST_REQUIRE(is_sound(one, count));
    }
  }

  /// Returns false once a member has nothing more to do, or waits.
  bool advance(uint32_t rank) {
    if (round_[rank] == schedules_[rank].size())
      return false;
    const bool gives = !given_[rank];
    if (gives)
      give(rank);
    given_[rank] = true;
    if (!can_take(rank))
      return gives;
    take(rank);
    ++round_[rank];
    given_[rank] = false;
    return true;
  }

  /// A member that waits for good, or bytes nobody takes, are failures.
  void check_finished() const {
    for (uint32_t rank = 0; rank < round_.size(); ++rank)
      BOOST_REQUIRE_MESSAGE(round_[rank] == schedules_[rank].size(),
                            "member " << rank << " waits");
    for (const auto& [ends, wire] : wires_)
      BOOST_REQUIRE_MESSAGE(wire.empty(), ends.first << " sent " << ends.second
                                                     << " too much");
  }

  Cluster cluster;

private:
  struct Message {
    uint64_t begin, end;
    std::vector<Terms> values;
  };

  const Round& current(uint32_t rank) const {
    return schedules_[rank][round_[rank]];
  }

  void give(uint32_t rank) {
    for (const auto& transfer : current(rank))
      if (transfer.kind == TransferKind::send) {
        auto* from = cluster.vectors[rank].data();
        wires_[{rank, transfer.peer}].push_back(
          {transfer.begin,
           transfer.end,
           {from + transfer.begin, from + transfer.end}});
        cluster.sent[rank] += transfer.end - transfer.begin;
      }
  }

  bool can_take(uint32_t rank) {
    std::map<uint32_t, size_t> wanted;
    for (const auto& transfer : current(rank))
      if (transfer.kind != TransferKind::send
          && ++wanted[transfer.peer] > wires_[{transfer.peer, rank}].size())
        return false;
    return true;
  }

  void take(uint32_t rank) {
    for (const auto& transfer : current(rank)) {
      if (transfer.kind == TransferKind::send)
        continue;
      auto& wire = wires_[{transfer.peer, rank}];
      const auto message = wire.front();
      wire.pop_front();
      BOOST_REQUIRE_EQUAL(message.begin, transfer.begin);
      BOOST_REQUIRE_EQUAL(message.end, transfer.end);
      for (auto i = transfer.begin; i < transfer.end; ++i)
        receive(rank, transfer.kind, i, message.values[i - transfer.begin]);
    }
  }

  void receive(uint32_t rank, TransferKind kind, uint64_t i,
               const Terms& value) {
    auto& own = kind == TransferKind::stage ? cluster.staged[rank][i]
                                            : cluster.vectors[rank][i];
    if (kind == TransferKind::copy)
      own = value;
    else
      std::transform(own.begin(), own.end(), value.begin(), own.begin(),
                     std::plus<>());
  }

  std::map<std::pair<uint32_t, uint32_t>, std::deque<Message>> wires_;
  std::vector<Schedule> schedules_;
  std::vector<size_t> round_;
  std::vector<bool> given_; ///< the round's sends are out
};

Cluster run(uint32_t size, uint64_t count,
            const std::function<Schedule(CollectivePlace)>& schedule_of) {
  Rehearsal rehearsal(size, count, schedule_of);
  for (bool moved = true; moved;) {
    moved = false;
    for (uint32_t rank = 0; rank < size; ++rank)
      moved = rehearsal.advance(rank) || moved;
  }
  rehearsal.check_finished();
  return std::move(rehearsal.cluster);
}

void check_all_have_the_sum(const Cluster& cluster) {
  const Terms once(cluster.vectors.size(), 1);
  for (const auto& vector : cluster.vectors)
    for (const auto& element : vector)
      BOOST_REQUIRE(element == once);
}

template <class Check>
void for_every_size(Check check) {
  for (uint32_t size = 1; size <= max_members; ++size)
    for (auto count : counts)
      BOOST_TEST_CONTEXT(size << " members, " << count << " elements")
  check(size, count);
}

/// Members dealt out to hosts in turns.
std::vector<std::vector<uint32_t>> hosts(uint32_t size, uint32_t count) {
  std::vector<std::vector<uint32_t>> groups(std::min(size, count));
  for (uint32_t rank = 0; rank < size; ++rank)
    groups[rank % groups.size()].push_back(rank);
  return groups;
}

} // namespace

BOOST_AUTO_TEST_CASE(runs_cover_everything_once) {
  for (uint32_t parts = 1; parts <= max_members; ++parts)
    for (auto count :
         {uint64_t{0}, uint64_t{5}, uint64_t{1000}, ~uint64_t{0}}) {
      uint64_t next = 0;
      for (uint32_t part = 0; part < parts; ++part) {
        auto [begin, end] = run_of(count, part, parts);
        BOOST_REQUIRE_EQUAL(begin, next);
        BOOST_REQUIRE_GE(end, begin);
        next = end;
      }
      BOOST_REQUIRE_EQUAL(next, count);
    }
}

BOOST_AUTO_TEST_CASE(a_ring_gives_everybody_each_term_once) {
  for_every_size([](uint32_t size, uint64_t count) {
    auto cluster = run(size, count, ring_all_reduce);
    check_all_have_the_sum(cluster);
    for (auto sent : cluster.sent) // 2 (P - 1) / P, up to a run's rounding
      BOOST_TEST(sent <= 2 * (size - 1) * (count / size + 1));
  });
}

BOOST_AUTO_TEST_CASE(a_ring_scatters_run_r_to_r_and_gathers_it_back) {
  for_every_size([](uint32_t size, uint64_t count) {
    const Terms once(size, 1);
    auto cluster = run(size, count, ring_reduce_scatter);
    for (uint32_t rank = 0; rank < size; ++rank) {
      auto [begin, end] = run_of(count, rank, size);
      for (auto i = begin; i < end; ++i)
        BOOST_REQUIRE(cluster.vectors[rank][i] == once);
    }
    auto gathered = run(size, count, ring_all_gather);
    for (uint32_t rank = 0; rank < size; ++rank)
      for (uint32_t owner = 0; owner < size; ++owner) {
        auto [begin, end] = run_of(count, owner, size);
        for (auto i = begin; i < end; ++i)
          BOOST_REQUIRE_EQUAL(gathered.vectors[rank][i][owner], 1);
      }
  });
}

BOOST_AUTO_TEST_CASE(halving_and_doubling_sums_for_any_size) {
  for_every_size([](uint32_t size, uint64_t count) {
    check_all_have_the_sum(run(size, count, halving_doubling_all_reduce));
  });
}

BOOST_AUTO_TEST_CASE(halving_and_doubling_takes_a_logarithm_of_rounds) {
  for (auto [size, rounds] :
       {std::pair{2u, 2u}, {4u, 4u}, {8u, 6u}, {16u, 8u}, {3u, 4u}, {17u, 10u}})
    for (uint32_t rank = 0; rank < size; ++rank)
      BOOST_TEST(halving_doubling_all_reduce({rank, size, 64}).size()
                 <= rounds);
}

BOOST_AUTO_TEST_CASE(the_direct_exchange_stages_each_peer_once) {
  for_every_size([](uint32_t size, uint64_t count) {
    auto cluster = run(size, count, direct_reduce_scatter);
    for (uint32_t rank = 0; rank < size; ++rank) {
      Terms others(size, 1);
      others[rank] = 0;
      auto [begin, end] = run_of(count, rank, size);
      for (uint64_t i = 0; i < count; ++i)
        BOOST_REQUIRE(cluster.staged[rank][i]
                      == (i >= begin && i < end ? others : Terms(size, 0)));
    }
  });
}

BOOST_AUTO_TEST_CASE(trees_reach_everybody_from_any_root) {
  for_every_size([](uint32_t size, uint64_t count) {
    for (uint32_t root = 0; root < size; ++root) {
      Terms of_root(size, 0);
      of_root[root] = 1;
      auto spread = run(size, count, [root](CollectivePlace at) {
        return tree_broadcast(at, root);
      });
      for (const auto& vector : spread.vectors)
        for (const auto& element : vector)
          BOOST_REQUIRE(element == of_root);
      auto summed = run(size, count, [root](CollectivePlace at) {
        return tree_reduce(at, root);
      });
      for (const auto& element : summed.vectors[root])
        BOOST_REQUIRE(element == Terms(size, 1));
    }
  });
}

BOOST_AUTO_TEST_CASE(a_hierarchy_sums_over_hosts_of_equal_and_other_sizes) {
  for_every_size([](uint32_t size, uint64_t count) {
    for (uint32_t host_count = 1; host_count <= size; ++host_count) {
      auto groups = hosts(size, host_count);
      check_all_have_the_sum(run(size, count, [&](CollectivePlace at) {
        return hierarchical_all_reduce(at, groups);
      }));
    }
  });
}

BOOST_AUTO_TEST_CASE(of_equal_hosts_only_one_share_crosses) {
  constexpr uint64_t count = 1024;
  const auto groups = hosts(8, 2);
  for (uint32_t rank = 0; rank < 8; ++rank) {
    uint64_t crossed = 0;
    for (const auto& round : hierarchical_all_reduce({rank, 8, count}, groups))
      for (const auto& transfer : round)
        if (transfer.kind == TransferKind::send
            && transfer.peer % 2 != rank % 2)
          crossed += transfer.end - transfer.begin;
    BOOST_TEST(crossed == count / 4);
  }
}

BOOST_AUTO_TEST_CASE(the_choice_goes_by_size_and_hosts_and_says_why) {
  auto algorithm = [](uint64_t bytes, uint32_t size, uint32_t host_count) {
    auto choice = choose_all_reduce(bytes, hosts(size, host_count));
    BOOST_TEST(!choice.reason.empty());
    return choice.algorithm;
  };
  BOOST_TEST((algorithm(1 << 10, 8, 1) == AllReduce::halving_doubling));
  BOOST_TEST((algorithm(64 << 20, 8, 1) == AllReduce::ring));
  BOOST_TEST((algorithm(1 << 10, 2, 1) == AllReduce::ring));
  BOOST_TEST((algorithm(64 << 20, 8, 4) == AllReduce::hierarchical));
  BOOST_TEST((algorithm(64 << 20, 4, 4) == AllReduce::ring));
}

BOOST_AUTO_TEST_SUITE_END()
