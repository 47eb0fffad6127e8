#include "strategies/quorum_log.hpp"

#include <boost/test/unit_test.hpp>

#include <functional>
#include <map>
#include <random>

using namespace troupe;

namespace {

constexpr uint64_t patience = 100;

LogBatch batch(uint64_t term, LogEnd after, std::vector<uint64_t> terms) {
  return {term, after, std::move(terms), false, 0};
}

} // namespace

BOOST_AUTO_TEST_SUITE(quorum_log)

BOOST_AUTO_TEST_CASE(a_voter_gives_one_vote_a_term_and_keeps_what_it_promised) {
  Voter voter{0, {}, patience};
  BOOST_TEST(voter.asked(3, false, 0).granted);
  BOOST_TEST(!voter.asked(3, false, 0).granted);
  BOOST_TEST(!voter.asked(2, false, 0).granted);
  BOOST_TEST(!voter.take(batch(2, {}, {2}), 0).led);
  Voter again{voter.promised(), {}, patience};
  BOOST_TEST(!again.asked(3, false, 0).granted);
}

BOOST_AUTO_TEST_CASE(a_trial_promises_nothing) {
  Voter voter{2, {}, patience};
  BOOST_TEST(voter.asked(9, true, 0).granted);
  BOOST_TEST(voter.promised() == 2u);
}

BOOST_AUTO_TEST_CASE(a_leader_that_was_heard_of_is_not_voted_out) {
  Voter voter{1, {}, patience};
  BOOST_TEST(voter.take(batch(1, {}, {1}), 50).fits);
  BOOST_TEST(!voter.asked(2, false, 149).granted);
  BOOST_TEST(voter.asked(2, true, 150).granted);
  voter.take(batch(1, {1, 1}, {}), 150);
  voter.leader_gone();
  BOOST_TEST(voter.asked(2, true, 151).granted);
}

BOOST_AUTO_TEST_CASE(entries_that_nobody_decided_are_cut) {
  Voter voter{3, {{}, {1, 1, 2, 2, 3}}, patience};
  const auto gap = voter.take(batch(4, {3, 7}, {4}), 0);
  BOOST_TEST(!gap.fits);
  BOOST_TEST(gap.have == 5u);
  const auto other = voter.take(batch(4, {3, 5}, {4}), 0);
  BOOST_TEST(other.fits);
  const auto cut = voter.take(batch(5, {1, 2}, {2, 5, 5}), 0);
  BOOST_TEST(cut.fits);
  BOOST_TEST(cut.keep == 3u);
  BOOST_TEST(cut.first == 1u);
  BOOST_TEST(cut.have == 5u);
  BOOST_TEST((voter.end() == LogEnd{5, 5}));
}

// One that comes twice, or late, changes nothing.
BOOST_AUTO_TEST_CASE(an_old_batch_cuts_nothing) {
  Voter voter{3, {{}, {1, 3, 3, 3}}, patience};
  const auto old = voter.take(batch(3, {1, 1}, {3}), 0);
  BOOST_TEST(old.keep == 4u);
  BOOST_TEST(old.have == 2u);
  BOOST_TEST((voter.end() == LogEnd{3, 4}));
}

BOOST_AUTO_TEST_CASE(the_newest_log_of_a_majority_is_gone_on_with) {
  Candidacy candidacy{3};
  const auto trial = candidacy.begin();
  BOOST_TEST(trial.trial);
  BOOST_TEST(!candidacy.answered(0, trial, {true, 4, {2, 9}}).has_value());
  const auto vote = candidacy.answered(2, trial, {true, 4, {3, 5}});
  BOOST_REQUIRE(vote.has_value());
  BOOST_TEST(!vote->trial);
  candidacy.answered(0, *vote, {true, 4, {2, 9}});
  BOOST_TEST(!candidacy.elected().has_value());
  candidacy.answered(2, *vote, {true, 4, {3, 5}});
  BOOST_TEST(candidacy.elected().value() == 2u);
}

BOOST_AUTO_TEST_CASE(who_is_refused_tries_a_later_term) {
  Candidacy candidacy{3};
  const auto first = candidacy.begin();
  candidacy.answered(1, first, {false, 6, {}});
  BOOST_TEST(candidacy.begin().term == 7u);
  BOOST_TEST(!candidacy.answered(0, first, {true, 0, {}}).has_value());
}

// Raft, figure 8: an entry of an earlier term is decided only with a later one.
BOOST_AUTO_TEST_CASE(only_an_entry_of_its_own_term_is_decided_by_a_leader) {
  Leadership leader{3, 4, {{}, {1, 2}}};
  leader.answered(0, {true, true, 2, 4, 2, 0});
  leader.answered(1, {true, true, 2, 4, 2, 0});
  BOOST_TEST(leader.decided() == 0u);
  BOOST_TEST(leader.append() == 3u);
  leader.answered(0, {true, true, 3, 4, 3, 0});
  BOOST_TEST(leader.decided() == 0u);
  leader.answered(2, {true, true, 3, 4, 3, 0});
  BOOST_TEST(leader.decided() == 3u);
}

BOOST_AUTO_TEST_CASE(a_voter_that_lacks_entries_gets_them) {
  Leadership leader{3, 4, {{}, {1, 1, 2}}};
  leader.append();
  const auto first = leader.next(1, 10, false);
  BOOST_REQUIRE(first.has_value());
  BOOST_TEST((first->after == LogEnd{2, 3}));
  BOOST_TEST(!leader.next(1, 10, true).has_value());
  leader.answered(1, {true, false, 1, 4, 0, 0});
  const auto again = leader.next(1, 2, false);
  BOOST_TEST((again->after == LogEnd{1, 1}));
  BOOST_TEST((again->terms == std::vector<uint64_t>{1, 2}));
  leader.lost(1);
  BOOST_TEST(leader.next(1, 2, false).has_value());
}

// docs/reliability.md, 214173: one that another had deposed answered as the
// leader until it stepped down.
BOOST_AUTO_TEST_CASE(a_leader_knows_when_another_may_lead) {
  Leadership leader{3, 4, {}};
  const Voter::Verdict taken{true, true, 0, 4, 0, 0};
  for (int i = 0; i < 8; ++i) {
    BOOST_TEST(leader.heard(3) == (i < 4));
    leader.tick(9);
    leader.answered(0, taken); // its own voter is no majority
  }
  BOOST_TEST(!leader.deposed());
  leader.answered(1, taken);
  BOOST_TEST(leader.heard(3));
}

BOOST_AUTO_TEST_CASE(a_leader_without_a_majority_steps_down) {
  Leadership leader{3, 4, {}};
  leader.append();
  for (int i = 0; i < 20; ++i) {
    leader.tick(5);
    leader.answered(0, {true, true, 1, 4, 1, 0});
    if (i % 4 == 0)
      leader.answered(2, {true, true, 1, 4, 1, 0});
  }
  BOOST_TEST(!leader.deposed());
  for (int i = 0; i < 6; ++i) {
    leader.tick(5);
    leader.answered(0, {true, true, 1, 4, 1, 0});
  }
  BOOST_TEST(leader.deposed());
}

BOOST_AUTO_TEST_CASE(a_refused_leader_sends_nothing_more) {
  Leadership leader{3, 4, {}};
  leader.append();
  leader.answered(2, {false, false, 0, 5, 0, 0});
  BOOST_TEST(leader.deposed());
  BOOST_TEST(!leader.next(0, 10, true).has_value());
}

// --- folded logs ------------------------------------------------------------

BOOST_AUTO_TEST_CASE(a_voter_learns_what_is_decided_and_may_fold_it) {
  Voter voter{2, {{}, {1, 1, 2}}, patience};
  BOOST_TEST(voter.decided() == 0u);
  voter.take({2, {2, 3}, {2}, false, 3}, 0);
  BOOST_TEST(voter.decided() == 3u);
  voter.fold(3);
  BOOST_TEST((voter.end() == LogEnd{2, 4}));
}

BOOST_AUTO_TEST_CASE(entries_that_are_folded_are_known) {
  Voter voter{2, {{1, 5}, {2, 2}}, patience};
  const auto late = voter.take(batch(2, {1, 2}, {1, 1}), 0);
  BOOST_TEST(late.fits);
  BOOST_TEST(late.first == 2u);
  BOOST_TEST(late.have == 4u);
  BOOST_TEST(late.keep == 7u);
  const auto over = voter.take(batch(3, {1, 4}, {1, 2, 3}), 0);
  BOOST_TEST(over.fits);
  BOOST_TEST(over.first == 2u);
  BOOST_TEST(over.keep == 6u);
  BOOST_TEST((voter.end() == LogEnd{3, 7}));
}

BOOST_AUTO_TEST_CASE(a_voter_that_is_behind_gets_a_snapshot_and_then_the_rest) {
  Leadership leader{3, 4, {{2, 6}, {2, 3}}};
  leader.append();
  leader.answered(1, {true, false, 2, 4, 0, 0});
  const auto snapshot = leader.next(1, 10, false);
  BOOST_REQUIRE(snapshot.has_value());
  BOOST_TEST(snapshot->snapshot);
  BOOST_TEST((snapshot->after == LogEnd{2, 6}));
  BOOST_TEST(snapshot->terms.empty());
  Voter voter{3, {{}, {1, 1, 3}}, patience};
  const auto verdict = voter.take(*snapshot, 0);
  BOOST_TEST(verdict.replaced);
  BOOST_TEST((voter.end() == LogEnd{2, 6}));
  leader.answered(1, verdict);
  const auto rest = leader.next(1, 10, false);
  BOOST_TEST((rest->after == LogEnd{2, 6}));
  BOOST_TEST((rest->terms == std::vector<uint64_t>{2, 3, 4}));
  leader.answered(1, voter.take(*rest, 0));
  leader.answered(0, {true, true, 9, 4, 9, 0});
  BOOST_TEST(leader.decided() == 9u);
}

BOOST_AUTO_TEST_CASE(a_snapshot_that_comes_late_replaces_nothing) {
  const LogBatch old{4, {2, 4}, {}, true, 4};
  for (const LogShape& log : {LogShape{{}, {1, 1, 2, 2, 4}},
                              LogShape{{2, 4}, {4}}, LogShape{{4, 5}, {}}}) {
    Voter voter{4, log, patience};
    const auto verdict = voter.take(old, 0);
    BOOST_TEST(verdict.fits);
    BOOST_TEST(!verdict.replaced);
    BOOST_TEST(verdict.have == 4u);
    BOOST_TEST((voter.end() == LogEnd{4, 5}));
  }
  Voter other{5, {}, patience};
  BOOST_TEST(!other.take(old, 0).led);
  BOOST_TEST((other.end() == LogEnd{}));
}

BOOST_AUTO_TEST_SUITE_END()

namespace {

/// Voters and candidates in a network that loses, doubles, delays and reorders;
/// all of them die and come back.
class World {
public:
  World(uint64_t seed, uint32_t voters, uint32_t candidates)
    : random_(seed),
      disks_(voters),
      candidates_(candidates, Candidate{voters}) {
    for (uint32_t i = 0; i < voters; ++i)
      voters_.emplace_back(0, LogShape{}, patience);
    cut_.resize(candidates, std::vector<bool>(voters));
  }

  void run(uint64_t until) {
    for (; now_ < until; ++now_) {
      deliver();
      if (chance(40))
        disturb();
      for (uint32_t i = 0; i < candidates_.size(); ++i)
        act(i);
    }
  }
  /// Nothing is lost any more.
  void calm() {
    calm_ = true;
    for (auto& row : cut_)
      row.assign(row.size(), false);
  }

  uint64_t decided() const { return decided_.size(); }
  uint64_t leaders() const { return leaders_.size(); }
  uint64_t snapshots() const { return snapshots_; }

private:
  struct Candidate {
    explicit Candidate(uint32_t voters) : wish(voters) {}

    Candidacy wish;
    std::optional<Leadership> leads;
    std::vector<uint64_t> payload; ///< what the entries say
    std::vector<uint64_t> log;
    uint64_t next_try = 0;
    uint64_t life = 0;
    uint64_t term = 0;
  };
  struct Disk {
    uint64_t promised = 0;
    LogEnd base;               ///< up to here it is folded
    std::vector<uint64_t> log; ///< all, so that a fault can be seen
    std::vector<uint64_t> payload;

    LogShape shape() const {
      return {base,
              {log.begin() + static_cast<std::ptrdiff_t>(base.id), log.end()}};
    }
    void fold(uint64_t id) { base = {log[id - 1], id}; }
  };

  bool chance(uint64_t one_in) { return random_() % one_in == 0; }

  void send(std::function<void()> what) {
    for (int copies = !calm_ && chance(10) ? 2 : 1; copies > 0; --copies)
      if (calm_ || !chance(10))
        flying_.emplace(now_ + 1 + random_() % (calm_ ? 3 : 30), what);
  }
  void deliver() {
    while (!flying_.empty() && flying_.begin()->first <= now_) {
      const auto what = std::move(flying_.begin()->second);
      flying_.erase(flying_.begin());
      what();
    }
  }

  void disturb() {
    if (calm_)
      return;
    const auto voter = random_() % voters_.size();
    const auto who = random_() % candidates_.size();
    if (chance(2)) // its process dies; its disk does not
      voters_[voter] = Voter{disks_[voter].promised, disks_[voter].shape(),
                             patience};
    if (const auto id = voters_[voter].decided();
        id > disks_[voter].base.id && chance(2)) {
      voters_[voter].fold(id);
      disks_[voter].fold(id);
    }
    if (chance(3))
      restart(candidates_[who]);
    cut_[random_() % cut_.size()][voter] = chance(2);
  }

  void restart(Candidate& who) {
    const auto life = who.life + 1;
    who = Candidate{static_cast<uint32_t>(voters_.size())};
    who.life = life;
    who.next_try = now_ + random_() % 200;
  }

  void act(uint32_t i) {
    auto& self = candidates_[i];
    if (self.leads && !self.leads->deposed()) {
      if (chance(50))
        self.leads->fold(self.leads->decided());
      if (chance(20)) {
        self.leads->append();
        self.log.push_back(self.term);
        self.payload.push_back(self.term << 32 | i << 16 | self.log.size());
      }
      for (uint32_t v = 0; v < voters_.size(); ++v)
        replicate(i, v);
      return;
    }
    if (self.leads) { // deposed
      self.leads.reset();
      self.wish.begin();
    }
    if (now_ < self.next_try)
      return;
    self.next_try = now_ + 40 + random_() % 100;
    ask(i, self.wish.begin());
  }

  void ask(uint32_t i, Candidacy::Wish wish) {
    for (uint32_t v = 0; v < voters_.size(); ++v)
      send([this, i, v, wish, life = candidates_[i].life] {
        if (cut_[i][v])
          return;
        const auto vote = voters_[v].asked(wish.term, wish.trial, now_);
        disks_[v].promised = voters_[v].promised();
        send([this, i, v, wish, life, vote] {
          auto& self = candidates_[i];
          if (self.life != life || self.leads || cut_[i][v])
            return;
          if (const auto next = self.wish.answered(v, wish, vote))
            ask(i, *next);
          if (const auto best = self.wish.elected())
            lead(i, *best);
        });
      });
  }

  void lead(uint32_t i, uint32_t best) {
    auto& self = candidates_[i];
    self.term = self.wish.term();
    BOOST_REQUIRE(leaders_.insert(self.term).second); // one a term
    self.log = disks_[best].log;
    self.payload = disks_[best].payload;
    if (!self.log.empty() && self.log.back() >= self.term) {
      self.wish.begin(); // another leads already
      return;
    }
    BOOST_REQUIRE(self.payload.size() >= decided_.size());
    for (size_t at = 0; at < decided_.size(); ++at)
      BOOST_REQUIRE(self.payload[at] == decided_[at]);
    self.leads.emplace(static_cast<uint32_t>(voters_.size()), self.term,
                       disks_[best].shape());
    self.leads->append();
    self.log.push_back(self.term);
    self.payload.push_back(self.term << 32 | i << 16);
  }

  void replicate(uint32_t i, uint32_t v) {
    auto& self = candidates_[i];
    auto batch = self.leads->next(v, 1 + random_() % 4, chance(20));
    if (!batch)
      return;
    const auto first = batch->snapshot ? 0 : batch->after.id;
    const auto last = batch->after.id + batch->terms.size();
    const std::vector<uint64_t> payload(
      self.payload.begin() + static_cast<std::ptrdiff_t>(first),
      self.payload.begin() + static_cast<std::ptrdiff_t>(last));
    const std::vector<uint64_t> terms(
      self.log.begin() + static_cast<std::ptrdiff_t>(first),
      self.log.begin() + static_cast<std::ptrdiff_t>(last));
    const auto life = self.life;
    const auto term = self.term;
    auto back = [this, i, v, life, term](auto then) {
      auto& now = candidates_[i];
      if (now.life == life && now.leads && now.term == term)
        then(*now.leads, v);
      check(i);
    };
    flying_.emplace(now_ + 60, [back] { // its deadline
      back([](Leadership& x, uint32_t voter) { x.lost(voter); });
    });
    send([this, i, v, batch = *batch, payload, terms, back] {
      if (cut_[i][v])
        return;
      const auto verdict = voters_[v].take(batch, now_);
      auto& disk = disks_[v];
      disk.promised = voters_[v].promised();
      if (verdict.replaced) {
        ++snapshots_;
        disk.base = batch.after;
        disk.log = terms;
        disk.payload = payload;
      } else if (verdict.fits && !batch.snapshot) {
        disk.log.resize(verdict.keep);
        disk.payload.resize(verdict.keep);
        for (size_t at = verdict.first; at < payload.size(); ++at) {
          disk.log.push_back(terms[at]);
          disk.payload.push_back(payload[at]);
        }
      }
      send([this, i, v, verdict, back] {
        if (!cut_[i][v])
          back(
            [&](Leadership& x, uint32_t voter) { x.answered(voter, verdict); });
      });
    });
  }

  /// What is decided was not decided otherwise before.
  void check(uint32_t i) {
    auto& self = candidates_[i];
    if (!self.leads)
      return;
    for (uint64_t at = 0; at < self.leads->decided(); ++at)
      if (at < decided_.size())
        BOOST_REQUIRE(decided_[at] == self.payload[at]);
      else
        decided_.push_back(self.payload[at]);
  }

  std::mt19937_64 random_;
  uint64_t now_ = 0;
  bool calm_ = false;
  std::vector<Voter> voters_;
  std::vector<Disk> disks_;
  std::vector<Candidate> candidates_;
  std::vector<std::vector<bool>> cut_;
  std::multimap<uint64_t, std::function<void()>> flying_;
  std::vector<uint64_t> decided_;
  std::set<uint64_t> leaders_;
  uint64_t snapshots_ = 0;
};

} // namespace

BOOST_AUTO_TEST_SUITE(quorum_log_in_a_bad_network)

BOOST_AUTO_TEST_CASE(no_entry_is_decided_twice_and_work_goes_on) {
  uint64_t leaders = 0;
  uint64_t snapshots = 0;
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    BOOST_TEST_CONTEXT("seed " << seed) {
      World world{seed, seed % 3 == 0 ? 5u : 3u, seed % 2 == 0 ? 3u : 2u};
      world.run(4'000);
      leaders += world.leaders();
      const auto before = world.decided();
      world.calm();
      world.run(6'000);
      BOOST_TEST(world.decided() > before + 20);
      snapshots += world.snapshots();
    }
  }
  BOOST_TEST(leaders > 60u * 3);
  BOOST_TEST(snapshots > 60u);
}

BOOST_AUTO_TEST_SUITE_END()
