#include "strategies/chain_link.hpp"

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <deque>
#include <map>
#include <random>
#include <set>

using namespace troupe;

BOOST_AUTO_TEST_SUITE(chain_link)

namespace {

using Answer = ChainFeed::Answer;
using Feed = ChainFeed::Verdict;
using Replica = ChainReplica::Verdict;

} // namespace

BOOST_AUTO_TEST_CASE(each_place_of_a_chain_knows_its_neighbours) {
  const std::vector<uint32_t> replicas{4, 1, 7};
  const std::vector<uint32_t> learners{2, 3};
  const auto head = place_in_chain(replicas, learners, 4);
  BOOST_TEST(head.head);
  BOOST_TEST(!head.tail);
  BOOST_TEST(!head.predecessor.has_value());
  BOOST_TEST((head.followers == std::vector<uint32_t>{1}));
  const auto middle = place_in_chain(replicas, learners, 1);
  BOOST_TEST((!middle.head && !middle.tail));
  BOOST_TEST(*middle.predecessor == 4u);
  const auto tail = place_in_chain(replicas, learners, 7);
  BOOST_TEST(tail.tail);
  BOOST_TEST((tail.followers == learners));
  const auto learner = place_in_chain(replicas, learners, 3);
  BOOST_TEST((learner.learner && !learner.replica && !learner.tail));
  BOOST_TEST(*learner.predecessor == 7u);
  BOOST_TEST(!place_in_chain(replicas, learners, 9).any());
  const auto alone = place_in_chain({5}, {}, 5);
  BOOST_TEST((alone.head && alone.tail));
  BOOST_TEST(alone.followers.empty());
}

BOOST_AUTO_TEST_CASE(who_lacks_nothing_is_fed_at_once) {
  ChainFeed feed{5};
  BOOST_TEST((feed.joined({true, 5, 1}, {true, 5, 1}) == Answer::feed));
  BOOST_TEST((feed.ordered(5) == Feed::send));
  BOOST_TEST((feed.joined({true, 5, 1}, {true, 6, 1}) == Answer::nothing));
}

BOOST_AUTO_TEST_CASE(what_waits_is_enough_for_who_joins_late) {
  ChainFeed feed{5};
  BOOST_TEST((feed.ordered(5) == Feed::wait));
  BOOST_TEST((feed.joined({true, 5, 1}, {true, 6, 1}) == Answer::feed));
  BOOST_TEST(feed.from() == 5u);
}

BOOST_AUTO_TEST_CASE(who_lags_has_another_history_or_nothing_gets_a_copy) {
  for (const ChainState& has :
       {ChainState{true, 4, 1}, ChainState{true, 5, 2}, ChainState{true, 6, 1},
        ChainState{false, 0, 0}}) {
    ChainFeed feed{5};
    BOOST_TEST((feed.joined(has, {true, 5, 1}) == Answer::copy));
    BOOST_TEST((feed.ordered(5) == Feed::wait));
    feed.copied(5);
    BOOST_TEST(feed.from() == 5u);
    BOOST_TEST((feed.ordered(6) == Feed::send));
  }
}

BOOST_AUTO_TEST_CASE(no_more_than_a_few_updates_wait) {
  ChainFeed feed{0};
  uint64_t next = 0;
  while (next < ChainFeed::max_waiting)
    BOOST_TEST((feed.ordered(next++) == Feed::wait));
  BOOST_TEST((feed.ordered(next++) == Feed::forget));
  BOOST_TEST((feed.joined({true, 0, 1}, {true, next, 1}) == Answer::copy));
}

BOOST_AUTO_TEST_CASE(a_replica_applies_in_order_and_once) {
  ChainReplica replica{{true, 5, 1}, true};
  BOOST_TEST((replica.offer(5) == Replica::early));
  replica.confirmed();
  BOOST_TEST((replica.offer(4) == Replica::duplicate));
  BOOST_TEST((replica.offer(6) == Replica::gap));
  BOOST_TEST((replica.offer(5) == Replica::apply));
  BOOST_TEST((replica.offer(5) == Replica::duplicate));
  BOOST_TEST((replica.offer(6) == Replica::apply));
  replica.copied(20);
  BOOST_TEST((replica.offer(7) == Replica::duplicate));
  BOOST_TEST((replica.offer(20) == Replica::apply));
}

namespace {

/// A chain of one slice whose links deliver in order until an epoch ends, when
/// all that is under way is lost; its replicas die and come back with what
/// they had. Updates are made by clients, who try again until the tail has
/// acknowledged them.
class World {
public:
  World(uint32_t shards, uint32_t length, uint32_t seed)
    : draw_(seed), length_(length) {
    for (uint32_t i = 0; i < shards; ++i)
      shards_[i].stored.whole = i < length;
    for (uint32_t i = 0; i < length; ++i)
      replicas_.push_back(i);
    begin_epoch();
  }

  void run(int turns) {
    for (int i = 0; i < turns; ++i) {
      const auto what = pick(100);
      if (what < 25)
        push();
      else if (what < 94)
        deliver();
      else if (what < 97)
        kill();
      else
        change();
    }
  }

  uint64_t acknowledged() const { return acknowledged_.size(); }
  uint64_t copies = 0, kills = 0;

private:
  using History = std::vector<uint64_t>;
  struct Message {
    enum class Kind { join, current, copy, update, again } kind;
    uint32_t from = 0;
    ChainState state;
    uint64_t number = 0, update = 0;
    History history;
  };
  struct Follower {
    ChainFeed feed;
    std::deque<Message> waiting;
  };
  struct Shard {
    bool alive = true;
    ChainState stored; ///< outlives it
    History history;   ///< so does this
    ChainPlace place;
    std::optional<ChainReplica> replica;
    std::map<uint32_t, Follower> followers;
    std::vector<Message> early;
  };

  uint32_t pick(uint32_t below) { return draw_() % below; }

  void send(uint32_t to, uint32_t from, Message message) {
    message.from = from;
    links_[{from, to}].push_back(std::move(message));
  }

  void push() {
    const auto update = acknowledged_.empty() || pick(4) != 0
                          ? next_update_++
                          : pick(static_cast<uint32_t>(next_update_));
    auto& head = shards_[replicas_.front()];
    if (!head.alive)
      return;
    const bool again = std::ranges::count(head.history, update) != 0;
    Message message{again ? Message::Kind::again : Message::Kind::update,
                    0,
                    {},
                    0,
                    update,
                    {}};
    if (!again)
      message.number = head.replica->order();
    apply(replicas_.front(), message);
  }

  void apply(uint32_t at, const Message& message) {
    auto& shard = shards_[at];
    if (message.kind == Message::Kind::update) {
      BOOST_REQUIRE(std::ranges::count(shard.history, message.update) == 0);
      shard.history.push_back(message.update);
      shard.stored.version = shard.history.size();
    }
    for (auto& [follower, one] : shard.followers) {
      if (message.kind == Message::Kind::again) {
        if (one.feed.fed())
          send(follower, at, message);
        else
          one.waiting.push_back(message);
        continue;
      }
      switch (one.feed.ordered(message.number)) {
        case Feed::send:
          send(follower, at, message);
          break;
        case Feed::wait:
          one.waiting.push_back(message);
          break;
        case Feed::forget:
          std::erase_if(one.waiting, [](const Message& x) {
            return x.kind == Message::Kind::update;
          });
      }
    }
    if (shard.place.tail && shard.replica->current()
        && std::ranges::count(shard.history, message.update) == 1)
      acknowledged_.insert(message.update);
  }

  void deliver() {
    if (links_.empty())
      return;
    auto at = std::next(links_.begin(), pick(links_.size()));
    const auto to = at->first.second;
    const auto message = std::move(at->second.front());
    at->second.pop_front();
    if (at->second.empty())
      links_.erase(at);
    if (shards_[to].alive)
      take(to, message);
  }

  void take(uint32_t at, const Message& message) {
    auto& shard = shards_[at];
    switch (message.kind) {
      case Message::Kind::join:
        if (shard.replica->current())
          answer(at, message);
        else
          shard.early.push_back(message);
        return;
      case Message::Kind::current:
        shard.replica->confirmed();
        became_current(at);
        return;
      case Message::Kind::copy:
        ++copies;
        shard.history = message.history;
        shard.stored = {true, message.history.size(), 0};
        shard.replica->copied(shard.stored.version);
        for (auto& [follower, one] : shard.followers)
          one = {ChainFeed{shard.stored.version}, {}};
        became_current(at);
        return;
      case Message::Kind::update:
        if (shard.replica->offer(message.number) == Replica::apply)
          apply(at, message);
        return;
      case Message::Kind::again:
        apply(at, message);
    }
  }

  void became_current(uint32_t at) {
    auto& shard = shards_[at];
    shard.stored.lineage = epoch_;
    learned_.insert(at);
    for (const auto& join : std::exchange(shard.early, {}))
      answer(at, join);
  }

  void answer(uint32_t at, const Message& join) {
    auto& shard = shards_[at];
    auto& one = shard.followers.at(join.from);
    switch (one.feed.joined(join.state, shard.replica->state())) {
      case Answer::nothing:
        return;
      case Answer::feed:
        send(join.from, at, {Message::Kind::current, 0, {}, 0, 0, {}});
        break;
      case Answer::copy:
        send(join.from, at, {Message::Kind::copy, 0, {}, 0, 0, shard.history});
        one.feed.copied(shard.history.size());
    }
    for (const auto& update : std::exchange(one.waiting, {}))
      if (update.kind == Message::Kind::again
          || update.number >= one.feed.from())
        send(join.from, at, update);
  }

  /// One at most is unrepaired.
  void kill() {
    std::vector<uint32_t> whole;
    for (auto at : replicas_)
      if (shards_[at].alive && learned_.contains(at))
        whole.push_back(at);
    if (whole.size() < 2)
      return;
    ++kills;
    shards_[replicas_[pick(replicas_.size())]].alive = false;
    begin_epoch();
  }

  void change() {
    for (auto& [at, shard] : shards_)
      shard.alive = shard.alive || pick(2) == 0;
    begin_epoch();
  }

  /// As the coordinator does: who took part last, the newest first; learners
  /// that have all are installed.
  void begin_epoch() {
    links_.clear(); // all that is under way is lost
    std::vector<uint32_t> stay;
    for (auto at : replicas_)
      if (shards_[at].alive)
        stay.push_back(at);
    for (auto at : learners_)
      if (shards_[at].alive && learned_.contains(at))
        stay.push_back(at);
    std::ranges::stable_sort(stay, [&](uint32_t a, uint32_t b) {
      const auto& x = shards_[a].stored;
      const auto& y = shards_[b].stored;
      return std::pair{x.lineage, x.version} > std::pair{y.lineage, y.version};
    });
    if (stay.size() > length_)
      stay.resize(length_);
    replicas_ = stay;
    BOOST_REQUIRE(!replicas_.empty());
    learners_.clear();
    for (auto& [at, shard] : shards_)
      if (shard.alive && std::ranges::count(replicas_, at) == 0)
        learners_.push_back(at);
    learned_.clear();
    ++epoch_;
    for (auto& [at, shard] : shards_)
      enter(at, shard);
    const auto& head = shards_[replicas_.front()].history;
    for (auto update : acknowledged_) // I2
      BOOST_REQUIRE(std::ranges::count(head, update) == 1);
  }

  void enter(uint32_t at, Shard& shard) {
    shard.place = place_in_chain(replicas_, learners_, at);
    shard.replica.reset();
    shard.followers.clear();
    shard.early.clear();
    if (!shard.place.any())
      return;
    shard.replica.emplace(shard.stored, shard.place.predecessor.has_value());
    for (auto follower : shard.place.followers)
      shard.followers.emplace(follower,
                              Follower{ChainFeed{shard.stored.version}, {}});
    if (shard.place.head) {
      shard.stored.lineage = epoch_;
      learned_.insert(at);
    } else {
      send(*shard.place.predecessor, at,
           {Message::Kind::join, 0, shard.replica->state(), 0, 0, {}});
    }
  }

  std::mt19937 draw_;
  uint32_t length_;
  uint64_t epoch_ = 0;
  uint64_t next_update_ = 0;
  std::map<uint32_t, Shard> shards_;
  std::vector<uint32_t> replicas_, learners_;
  std::set<uint32_t> learned_; ///< have all, in this epoch
  std::map<std::pair<uint32_t, uint32_t>, std::deque<Message>> links_;
  std::set<uint64_t> acknowledged_;
};

} // namespace

// I2, PROTOCOL 11, 18
BOOST_AUTO_TEST_CASE(nothing_acknowledged_is_lost_and_nothing_applied_twice) {
  uint64_t acknowledged = 0, copies = 0, kills = 0;
  for (uint32_t seed = 0; seed < 600; ++seed) {
    World world{2 + seed % 4, 1 + seed % 3, seed};
    world.run(1500);
    acknowledged += world.acknowledged();
    copies += world.copies;
    kills += world.kills;
  }
  BOOST_TEST(acknowledged > 10'000u);
  BOOST_TEST(copies > 1'000u);
  BOOST_TEST(kills > 1'000u);
}

BOOST_AUTO_TEST_SUITE_END()
