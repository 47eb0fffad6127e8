#include "strategies/chain_book.hpp"

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <map>
#include <random>
#include <set>
#include <string>

using namespace troupe;

BOOST_AUTO_TEST_SUITE(chain_book)

using Shards = std::vector<uint32_t>;
using Held = ChainBook::Held;

BOOST_AUTO_TEST_CASE(a_newcomer_learns_then_becomes_the_tail) {
  ChainBook book{{{0, 1}}};
  book.decide({0, 1}, {{{0, 0, 0}, {1, 0, 0}}});
  BOOST_TEST((book.chain(0).replicas == Shards{0, 1}));
  book.decide({1}, {{{1, 1, 7}}}); // the head died
  BOOST_TEST((book.chain(0).replicas == Shards{1}));
  BOOST_TEST(book.chain(0).learners.empty());
  book.decide({0, 1}, {{{1, 2, 9}}}); // its replacement holds nothing
  BOOST_TEST((book.chain(0).replicas == Shards{1}));
  BOOST_TEST((book.chain(0).learners == Shards{0}));
  BOOST_TEST(!book.settled());
  book.decide({0, 1}, {{{0, 3, 12}, {1, 3, 12}}}); // caught up
  BOOST_TEST((book.chain(0).replicas == Shards{1, 0}));
  BOOST_TEST(book.settled());
}

BOOST_AUTO_TEST_CASE(history_counts_before_versions) {
  // Shard 0 was cut off in epoch 4 and went on alone: never acknowledged.
  ChainBook book{{{0, 1}}};
  book.decide({0, 1}, {{{0, 4, 20}, {1, 5, 18}}});
  BOOST_TEST((book.chain(0).replicas == Shards{1}));
  BOOST_TEST((book.chain(0).learners == Shards{0}));
}

BOOST_AUTO_TEST_CASE(who_has_the_newest_version_is_the_head) {
  ChainBook book{{{0, 1, 2}}};
  book.decide({0, 1, 2}, {{{0, 1, 4}, {1, 1, 5}, {2, 1, 4}}});
  BOOST_TEST((book.chain(0).replicas == Shards{1, 0, 2}));
}

BOOST_AUTO_TEST_CASE(a_slice_moves_by_learning_and_leaving) {
  ChainBook book{{{0}}};
  book.decide({0, 1}, {{{0, 1, 3}}});
  book.want(0, {1});
  book.decide({0, 1}, {{{0, 2, 5}}});
  BOOST_TEST((book.chain(0).replicas == Shards{0}));
  BOOST_TEST((book.chain(0).learners == Shards{1}));
  book.decide({0, 1}, {{{0, 3, 8}, {1, 3, 8}}});
  BOOST_TEST((book.chain(0).replicas == Shards{1}));
  BOOST_TEST(book.settled());
}

// What only the leaving head has was never acknowledged, if the others were
// replicas beside it; and may have been, if they were learning still.
BOOST_AUTO_TEST_CASE(who_leaves_takes_along_what_nobody_was_told_of) {
  ChainBook book{{{0}}};
  book.decide({0, 1}, {{{0, 0, 3}}}, 1);
  book.want(0, {1});
  book.decide({0, 1}, {{{0, 1, 5}}}, 2);
  book.decide({0, 1}, {{{0, 2, 9}, {1, 2, 8}}}, 3);
  BOOST_TEST((book.chain(0).replicas == Shards{0, 1}));
  BOOST_TEST(book.leaving());
  ChainBook behind = book;
  behind.decide({0, 1}, {{{0, 2, 12}, {1, 2, 10}}}, 4); // 3 never began there
  BOOST_TEST((behind.chain(0).replicas == Shards{0, 1}));
  book.decide({0, 1}, {{{0, 3, 12}, {1, 3, 10}}}, 4);
  BOOST_TEST((book.chain(0).replicas == Shards{1}));
  BOOST_TEST(!book.leaving());
  BOOST_TEST(book.settled());
}

BOOST_AUTO_TEST_CASE(who_leaves_stays_until_all_are_level) {
  ChainBook book{{{0}}};
  book.decide({0, 1}, {{{0, 1, 3}}});
  book.want(0, {1});
  book.decide({0, 1}, {{{0, 2, 9}, {1, 2, 8}}});
  BOOST_TEST((book.chain(0).replicas == Shards{0, 1}));
}

// A learner has the slice's values; the decisions of the chain it was not in
// may be with who leaves alone.
BOOST_AUTO_TEST_CASE(who_decided_stays_until_another_is_proven_to_know_all) {
  for (bool decides : {false, true}) {
    ChainBook book{{{0}, {0}}, decides};
    book.decide({0, 1}, {{{0, 0, 3}}, {{0, 0, 4}}}, 1);
    book.want(0, {1});
    book.want(1, {1});
    book.decide({0, 1}, {{{0, 1, 5}}, {{0, 1, 6}}}, 2);
    book.decide({0, 1}, {{{0, 2, 8}, {1, 2, 8}}, {{0, 2, 9}, {1, 2, 9}}}, 3);
    BOOST_TEST(
      (book.chain(0).replicas == (decides ? Shards{0, 1} : Shards{1})));
    BOOST_TEST((book.chain(1).replicas == Shards{1}));
    BOOST_TEST(book.leaving() == decides);
    book.decide({0, 1}, {{{0, 3, 9}, {1, 3, 9}}, {{1, 3, 9}}}, 4);
    BOOST_TEST((book.chain(0).replicas == Shards{1}));
    BOOST_TEST(book.settled());
  }
}

BOOST_AUTO_TEST_CASE(an_epoch_needs_a_replica_of_every_slice) {
  ChainBook book{{{0, 1}, {2}}};
  BOOST_TEST(book.viable({0, 2}));
  BOOST_TEST(book.viable({1, 2}));
  BOOST_TEST(!book.viable({0, 1}));
  BOOST_TEST((book.missing({2}) == std::set<uint32_t>{0, 1}));
  book.decide({1, 2}, {{{1, 1, 1}}, {{2, 1, 1}}});
  BOOST_TEST(!book.viable({0, 2})); // 0 is a learner at best
}

BOOST_AUTO_TEST_CASE(a_slice_that_nobody_holds_is_lost) {
  ChainBook book{{{0, 1}}};
  book.decide({0}, {{}});
  BOOST_TEST(book.chain(0).lost);
  BOOST_TEST((book.chain(0).replicas == Shards{0}));
}

BOOST_AUTO_TEST_CASE(who_was_to_leave_begins_again_where_all_others_are_gone) {
  ChainBook book{{{0}}};
  book.want(0, {1});
  book.decide({0}, {{}});
  BOOST_TEST(book.chain(0).lost);
  BOOST_TEST((book.chain(0).replicas == Shards{0}));
}

BOOST_AUTO_TEST_CASE(rebalancing_levels_loads_with_few_moves) {
  std::mt19937 random{3};
  for (int run = 0; run < 300; ++run) {
    const uint32_t before = 1 + random() % 4, length = 1 + random() % 2;
    std::vector<std::vector<uint32_t>> chains;
    std::vector<uint64_t> bytes;
    for (int i = 0; i < 24; ++i) {
      const uint32_t c = random() % before;
      Shards chain{c};
      if (length == 2)
        chain.push_back(before + c);
      chains.push_back(chain);
      bytes.push_back(1 + random() % 1000);
    }
    std::set<uint32_t> shards;
    for (uint32_t i = 0; i < 1 + random() % 8; ++i)
      shards.insert(i);
    const auto after = rebalance(chains, bytes, shards, length);
    std::map<uint32_t, uint64_t> load;
    for (size_t i = 0; i < after.size(); ++i) {
      BOOST_REQUIRE(after[i].size() == std::min<size_t>(length, shards.size()));
      std::set<uint32_t> distinct(after[i].begin(), after[i].end());
      BOOST_REQUIRE(distinct.size() == after[i].size());
      for (auto shard : after[i]) {
        BOOST_REQUIRE(shards.contains(shard));
        load[shard] += bytes[i];
      }
    }
    uint64_t most = 0, least = ~uint64_t{0};
    for (auto shard : shards) {
      most = std::max(most, load[shard]);
      least = std::min(least, load[shard]);
    }
    if (length == 1) // by less than the largest slice
      BOOST_REQUIRE(most - least <= 1000);
    BOOST_REQUIRE((rebalance(after, bytes, shards, length) == after));
  }
}

// Workers keep layers that they all-reduce: the shard that got one could never
// apply a step of it, and no step was committed any more.
BOOST_AUTO_TEST_CASE(a_slice_that_no_shard_keeps_is_given_to_none) {
  const auto after = rebalance({{0}, {}, {0}}, {8, 4, 8}, {0, 1}, 1);
  BOOST_TEST(after[1].empty());
  BOOST_TEST(after[0] != after[2]);
}

BOOST_AUTO_TEST_CASE(a_shard_that_takes_longer_keeps_less) {
  const std::vector<std::vector<uint32_t>> chains(12, Shards{0});
  const std::vector<uint64_t> bytes(12, 100);
  const auto after = rebalance(chains, bytes, {0, 1}, 1, {{0, 2.0}});
  BOOST_TEST(std::ranges::count(after, Shards{0}) == 4);
  BOOST_TEST(std::ranges::count(after, Shards{1}) == 8);
}

BOOST_AUTO_TEST_CASE(random_lives_keep_what_was_acknowledged) {
  // Each shard has (epoch, updates); the tail's updates are acknowledged. A
  // shard that dies forgets all; never more than a chain of two can bear.
  std::mt19937 random{11};
  for (int run = 0; run < 500; ++run) {
    ChainBook book{{{0, 1}}};
    struct Memory {
      bool whole = true;
      uint64_t epoch = 0, updates = 0;
    };
    std::vector<Memory> memory(2);
    uint64_t acknowledged = 0, epoch = 0;
    for (int life = 0; life < 40; ++life) {
      std::vector<Held> held;
      for (uint32_t i = 0; i < 2; ++i)
        if (memory[i].whole)
          held.push_back({i, memory[i].epoch, memory[i].updates});
      book.decide({0, 1}, {held});
      ++epoch;
      const auto& chain = book.chain(0);
      BOOST_REQUIRE(!chain.lost);
      // Followers get what they lack, then are of this epoch's history.
      const auto newest = memory[chain.replicas.front()].updates;
      BOOST_REQUIRE(newest >= acknowledged);
      for (auto shard : chain.replicas)
        memory[shard] = {true, epoch, newest};
      // Updates go down; some have reached the head only.
      const uint64_t done = random() % 5, on_the_way = random() % 3;
      for (auto shard : chain.replicas)
        memory[shard].updates += done;
      memory[chain.replicas.front()].updates += on_the_way;
      if (chain.replicas.size() == 1)
        acknowledged = memory[chain.replicas.front()].updates;
      else
        acknowledged = memory[chain.replicas.back()].updates;
      // A learner that caught up holds what the tail does.
      for (auto shard : chain.learners)
        if (random() % 2 == 0)
          memory[shard] = {true, epoch, acknowledged};
      uint32_t whole = 0;
      for (const auto& x : memory)
        whole += x.whole && x.epoch == epoch;
      if (whole == 2 && random() % 2 == 0)
        memory[random() % 2] = {false, 0, 0};
    }
  }
}

/// One slice and three shards that move it about, with what each has of it.
struct MovingSlice {
  struct Memory {
    bool whole = false;
    uint64_t epoch = 0, updates = 0;
  };

  bool chance(unsigned of) { return random() % of == 0; }

  /// Followers become current one after the other, or the epoch is over before;
  /// then updates go down, some only part of the way.
  void live() {
    std::vector<Held> held;
    for (uint32_t i = 0; i < memory.size(); ++i)
      if (memory[i].whole)
        held.push_back({i, memory[i].epoch, memory[i].updates});
    book.decide({0, 1, 2}, {held}, ++epoch);
    const auto& chain = book.chain(0);
    BOOST_REQUIRE(!chain.lost);
    auto before = memory[chain.replicas.front()].updates;
    BOOST_REQUIRE(before >= acknowledged); // I2
    for (uint32_t i = 0; i < memory.size(); ++i)
      if (std::ranges::count(chain.replicas, i)
            + std::ranges::count(chain.learners, i)
          == 0)
        memory[i] = {};
    current = 0;
    for (auto shard : chain.replicas) {
      if (current > 0 && chance(5))
        break;
      memory[shard] = {true, epoch, before};
      ++current;
    }
    auto reached = before + random() % 5;
    for (size_t i = 0; i < current; ++i) {
      memory[chain.replicas[i]].updates = reached;
      reached = before + random() % (reached - before + 1);
    }
    if (current < chain.replicas.size())
      return; // its tail acknowledges nothing and teaches nobody
    const auto tail = memory[chain.replicas.back()].updates;
    acknowledged = std::max(acknowledged, tail);
    for (auto shard : chain.learners)
      if (chance(2)) // it may be behind what the tail has told meanwhile
        memory[shard] = {true, epoch, before + random() % (tail - before + 1)};
  }

  void die_or_move() {
    if (current > 1 && chance(4))
      memory[book.chain(0).replicas[random() % current]] = {};
    if (!book.settled() || chance(2))
      return;
    const uint32_t first = random() % 3;
    Shards wanted{first};
    if (chance(2))
      wanted.push_back((first + 1 + random() % 2) % 3);
    book.want(0, wanted);
    moves += 1;
  }

  explicit MovingSlice(unsigned seed) : random(seed) { memory[0].whole = true; }

  std::mt19937 random;
  ChainBook book{{{0}}};
  std::vector<Memory> memory = std::vector<Memory>(3);
  uint64_t epoch = 0, acknowledged = 0;
  size_t current = 0; ///< replicas, from the head
  int moves = 0;
};

// I2
BOOST_AUTO_TEST_CASE(moves_and_deaths_keep_what_was_acknowledged) {
  int moves = 0;
  for (unsigned seed = 0; seed < 2000; ++seed) {
    MovingSlice slice{seed};
    for (int life = 0; life < 60; ++life) {
      slice.live();
      slice.die_or_move();
    }
    moves += slice.moves;
  }
  BOOST_TEST(moves > 5000); // they come to an end
}

BOOST_AUTO_TEST_CASE(a_book_goes_on_where_an_earlier_one_ended) {
  ChainBook book{{{0, 1}, {1, 0}}};
  book.resume({{2, 1}, {1}}, {{2, 1}, {1, 2}}, 9);
  BOOST_TEST(book.chain(0).replicas == (std::vector<uint32_t>{2, 1}));
  BOOST_TEST(book.wanted(1) == (std::vector<uint32_t>{1, 2}));
  BOOST_TEST(book.viable({1}));
  BOOST_TEST(!book.viable({0, 2})); // neither keeps the second slice
  book.decide({1, 2}, {{{2, 9, 5}, {1, 9, 5}}, {{1, 9, 5}}}, 10);
  BOOST_TEST(book.chain(1).learners == (std::vector<uint32_t>{2}));
}

BOOST_AUTO_TEST_CASE(a_slice_that_no_shard_keeps_is_missed_by_nobody) {
  ChainBook book{{{}, {0}}};
  BOOST_TEST(book.viable({0}));
  BOOST_TEST((book.missing({1}) == std::set<uint32_t>{0}));
  book.decide({0, 1}, {{}, {{0, 0, 3}}}, 1);
  BOOST_TEST(book.chain(0).replicas.empty());
  BOOST_TEST(book.chain(0).learners.empty());
  BOOST_TEST(!book.chain(0).lost);
  BOOST_TEST(book.settled());
  BOOST_TEST(!book.leaving());
}

// PROTOCOL 18
BOOST_AUTO_TEST_CASE(replicas_of_a_slice_are_on_different_hosts_if_there_are) {
  using Chains = std::vector<std::vector<uint32_t>>;
  const std::map<uint32_t, std::string> hosts{
    {0, "a"}, {1, "a"}, {2, "b"}, {3, "b"}};
  const auto spread = spread_over_hosts({{0, 1}, {1, 2}, {2, 3}, {3, 0}},
                                        {8, 8, 8, 8}, hosts);
  BOOST_TEST((spread == Chains{{0, 2}, {1, 2}, {2, 1}, {3, 0}}));
  BOOST_TEST((spread_over_hosts(spread, {8, 8, 8, 8}, hosts) == spread));
  // One host more than replicas, and one host alone.
  BOOST_TEST((spread_over_hosts({{0, 1}}, {8}, {{0, "a"}, {1, "a"}, {2, "b"}})
              == Chains{{0, 2}}));
  BOOST_TEST(
    (spread_over_hosts({{0, 1}}, {8}, {{0, "a"}, {1, "a"}}) == Chains{{0, 1}}));
  // Of three replicas on two hosts two are on one.
  BOOST_TEST(
    (spread_over_hosts({{0, 1, 2}}, {8}, {{0, "a"}, {1, "a"}, {2, "b"}})
     == Chains{{0, 1, 2}}));
  BOOST_TEST(
    (spread_over_hosts({{}, {0, 1}}, {8, 8}, {}) == Chains{{}, {0, 1}}));
}

BOOST_AUTO_TEST_CASE(any_chains_on_any_hosts_are_spread_as_far_as_they_can_be) {
  std::mt19937 draw{1};
  for (int world = 0; world < 2000; ++world) {
    const uint32_t shards = 2 + draw() % 5;
    const uint32_t length = 2 + draw() % std::min(shards - 1, 2u);
    std::map<uint32_t, std::string> hosts;
    std::set<std::string> names;
    for (uint32_t i = 0; i < shards; ++i)
      names.insert(
        hosts[i] = std::string(1, static_cast<char>('a' + draw() % 3)));
    std::vector<std::vector<uint32_t>> chains;
    for (uint32_t i = 0; i < shards; ++i) {
      auto& chain = chains.emplace_back();
      for (uint32_t j = 0; j < length; ++j)
        chain.push_back((i + j) % shards);
    }
    const auto spread =
      spread_over_hosts(chains, std::vector<uint64_t>(shards, 4), hosts);
    for (uint32_t i = 0; i < shards; ++i) {
      std::set<std::string> used;
      for (auto shard : spread[i])
        used.insert(hosts[shard]);
      const std::set<uint32_t> once(spread[i].begin(), spread[i].end());
      BOOST_REQUIRE(once.size() == length);
      BOOST_REQUIRE(spread[i].front() == chains[i].front());
      BOOST_REQUIRE(used.size() == std::min<size_t>(length, names.size()));
    }
  }
}

BOOST_AUTO_TEST_SUITE_END()
