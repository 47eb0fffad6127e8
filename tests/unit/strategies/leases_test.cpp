#include "strategies/leases.hpp"

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <random>

using namespace troupe;

BOOST_AUTO_TEST_SUITE(leases)

namespace {

using Leases = std::vector<uint64_t>;

/// Asynchronous training in small: workers push their leases to shards, die
/// and come back; shards go back to a snapshot of their own.
class Run {
public:
  Run(uint64_t total, uint32_t workers, uint32_t shards, uint32_t seed)
    : book(total, shards), random_(seed), held_(workers), shards_(shards) {
    // nop
  }

  void event() {
    auto worker = static_cast<uint32_t>(random_() % held_.size());
    auto shard = static_cast<uint32_t>(random_() % shards_.size());
    switch (random_() % 40) {
      case 0:
        die(worker);
        break;
      case 1:
        shards_[shard].saved = shards_[shard].applied;
        break;
      case 2:
        restore(shard);
        break;
      case 3:
      case 4:
        ask(worker);
        break;
      default:
        push(worker, shard);
    }
  }

  /// No more faults: lets everybody work until nothing is left.
  void finish() {
    for (uint32_t round = 0; !book.done(); ++round) {
      BOOST_REQUIRE(round < 10'000); // I11
      for (uint32_t worker = 0; worker < held_.size(); ++worker) {
        ask(worker);
        for (uint32_t shard = 0; shard < shards_.size(); ++shard)
          push(worker, shard);
      }
    }
  }

  void check(uint64_t granted) {
    for (auto& shard : shards_) {
      BOOST_TEST(shard.applied.size() == granted);
      BOOST_TEST(shard.applied.above().empty()); // the floor moved up
    }
  }

  LeaseBook book;
  int deaths = 0;
  int restores = 0;

private:
  struct Held {
    uint64_t lease = 0;
    std::set<uint32_t> missing; ///< shards without it
  };
  struct Shard {
    LeaseSet applied;
    LeaseSet saved;
  };

  void ask(uint32_t worker) {
    for (auto lease : book.grant(worker, 2)) {
      for (const auto& all : held_)
        for (const auto& x : all)
          BOOST_TEST(x.lease != lease); // nobody else holds it
      held_[worker].push_back({lease, {}});
    }
  }

  /// Pushes the oldest lease to the shard; a worker drops it once consumed.
  void push(uint32_t worker, uint32_t at) {
    if (held_[worker].empty())
      return;
    auto lease = held_[worker].front().lease;
    shards_[at].applied.insert(lease); // a second copy is not applied
    auto before = book.consumed();
    auto consumed = book.applied(lease, at);
    BOOST_TEST(book.consumed() == before + consumed);
    BOOST_TEST(!book.applied(lease, at)); // nor consumed
    auto everywhere = std::ranges::all_of(shards_, [&](const Shard& x) {
      return x.applied.contains(lease);
    });
    BOOST_TEST((!consumed || everywhere));
    if (everywhere)
      held_[worker].erase(held_[worker].begin());
  }

  void die(uint32_t worker) {
    deaths += !held_[worker].empty();
    held_[worker].clear();
    book.worker_lost(worker);
  }

  void restore(uint32_t at) {
    restores += shards_[at].saved.size() < shards_[at].applied.size();
    shards_[at].applied = shards_[at].saved;
    book.shard_restored(at, shards_[at].saved);
  }

  std::mt19937 random_;
  std::vector<std::vector<Held>> held_;
  std::vector<Shard> shards_;
};

} // namespace

BOOST_AUTO_TEST_CASE(what_a_set_lacks_is_counted) {
  const LeaseSet some{3, {5, 7}};
  BOOST_TEST(lacking(some, some) == 0u);
  BOOST_TEST(lacking(some, LeaseSet{8, {}}) == 0u);
  BOOST_TEST(lacking(LeaseSet{8, {}}, some) == 3u); // 3, 4, 6
  BOOST_TEST(lacking(some, LeaseSet{2, {5}}) == 2u);
  BOOST_TEST(lacking(some, LeaseSet{}) == 5u);
}

BOOST_AUTO_TEST_CASE(a_lease_set_is_a_floor_and_exceptions) {
  LeaseSet set;
  BOOST_TEST(set.insert(2));
  BOOST_TEST(set.insert(0));
  BOOST_TEST(!set.insert(0));
  BOOST_TEST(!set.insert(2));
  BOOST_TEST(set.floor() == 1u);
  BOOST_TEST(set.above().size() == 1u);
  BOOST_TEST(set.size() == 2u);
  BOOST_TEST(set.contains(0));
  BOOST_TEST(!set.contains(1));
  BOOST_TEST(set.contains(2));
  BOOST_TEST(set.insert(1));
  BOOST_TEST(set.floor() == 3u);
  BOOST_TEST(set.above().empty());
}

BOOST_AUTO_TEST_CASE(a_lease_set_from_outside_settles) {
  LeaseSet set{3, {7, 0, 2, 4, 3, 4}};
  BOOST_TEST(set.floor() == 5u);
  BOOST_TEST((set.above() == std::vector<uint64_t>{7}));
  BOOST_TEST(set.size() == 6u);
}

BOOST_AUTO_TEST_CASE(a_lease_set_stays_as_small_as_its_gaps) {
  // A million leases, each at most 8 early or late.
  LeaseSet set;
  std::mt19937 random{1};
  Leases window;
  for (uint64_t lease = 0; lease < 1'000'000; ++lease) {
    window.push_back(lease);
    if (window.size() < 8)
      continue;
    auto i = random() % 4 == 0 ? 0 : random() % window.size();
    BOOST_REQUIRE(set.insert(window[i]));
    window.erase(window.begin() + static_cast<std::ptrdiff_t>(i));
    BOOST_REQUIRE(set.above().size() < 256);
  }
}

// A shard keeps what is out of order, and has room for so much.
BOOST_AUTO_TEST_CASE(nobody_is_granted_leases_far_ahead_of_one_that_is_late) {
  LeaseBook book{100'000, 1};
  BOOST_TEST(book.grant(0, 1) == Leases{0});
  uint64_t ahead = 0;
  for (auto got = book.grant(1, 8); !got.empty(); got = book.grant(1, 8))
    for (auto lease : got) {
      book.applied(lease, 0);
      ahead = lease;
    }
  BOOST_TEST(ahead == 2'047u);
  book.applied(0, 0); // the late one
  BOOST_TEST(book.grant(1, 8).size() == 8u);
}

BOOST_AUTO_TEST_CASE(leases_are_granted_in_order_until_none_is_left) {
  LeaseBook book{5, 1};
  BOOST_TEST((book.grant(0, 2) == Leases{0, 1}));
  BOOST_TEST((book.grant(1, 2) == Leases{2, 3}));
  BOOST_TEST((book.grant(0, 2) == Leases{4}));
  BOOST_TEST(book.grant(0, 2).empty());
}

BOOST_AUTO_TEST_CASE(a_lease_is_consumed_once_every_shard_has_it) {
  // PROTOCOL 11.
  LeaseBook book{2, 3};
  book.grant(0, 2);
  BOOST_TEST(!book.applied(1, 0));
  BOOST_TEST(!book.applied(1, 2));
  BOOST_TEST(!book.applied(1, 2));
  BOOST_TEST(book.consumed() == 0u);
  BOOST_TEST(book.applied(1, 1));
  BOOST_TEST(!book.applied(1, 1));
  BOOST_TEST(book.consumed() == 1u);
  BOOST_TEST(!book.done());
  for (uint32_t shard = 0; shard < 3; ++shard)
    book.applied(0, shard);
  BOOST_TEST(book.done());
}

BOOST_AUTO_TEST_CASE(a_lease_never_granted_cannot_be_applied) {
  LeaseBook book{10, 1};
  book.grant(0, 1);
  BOOST_TEST(!book.applied(1, 0));
  BOOST_TEST(!book.applied(~uint64_t{0}, 0));
  BOOST_TEST((book.grant(0, 1) == Leases{1}));
  BOOST_TEST(book.applied(1, 0));
}

BOOST_AUTO_TEST_CASE(a_dead_worker_s_leases_are_granted_again_first) {
  LeaseBook book{10, 1};
  book.grant(0, 3);
  book.grant(1, 1);
  book.applied(1, 0);
  book.worker_lost(0);
  BOOST_TEST((book.grant(2, 3) == Leases{0, 2, 4}));
}

BOOST_AUTO_TEST_CASE(a_push_that_outlives_its_worker_takes_the_lease_back) {
  LeaseBook book{10, 1};
  book.grant(0, 1);
  book.worker_lost(0);
  BOOST_TEST(book.applied(0, 0));
  BOOST_TEST((book.grant(1, 1) == Leases{1}));
}

BOOST_AUTO_TEST_CASE(a_lease_half_applied_by_the_dead_is_finished_by_another) {
  LeaseBook book{10, 2};
  book.grant(0, 1);
  book.applied(0, 1);
  book.worker_lost(0);
  BOOST_TEST((book.grant(1, 1) == Leases{0}));
  BOOST_TEST(!book.applied(0, 1)); // that slice drops it
  BOOST_TEST(book.applied(0, 0));
}

BOOST_AUTO_TEST_CASE(what_a_restored_shard_lacks_is_issued_again) {
  LeaseBook book{10, 2};
  book.grant(0, 4);
  for (uint64_t lease = 0; lease < 3; ++lease)
    for (uint32_t shard = 0; shard < 2; ++shard)
      book.applied(lease, shard);
  BOOST_TEST(book.consumed() == 3u);
  book.shard_restored(1, LeaseSet{1, {2}});
  BOOST_TEST(book.consumed() == 2u);
  // Lease 1 had been consumed; lease 3 is with worker 0 still.
  BOOST_TEST((book.grant(1, 2) == Leases{1, 4}));
  BOOST_TEST(!book.applied(1, 0));
  BOOST_TEST(book.applied(1, 1));
}

BOOST_AUTO_TEST_CASE(a_shard_that_lost_everything_gets_everything_again) {
  LeaseBook book{3, 2};
  book.grant(0, 3);
  for (uint64_t lease = 0; lease < 3; ++lease)
    for (uint32_t shard = 0; shard < 2; ++shard)
      book.applied(lease, shard);
  BOOST_TEST(book.done());
  book.shard_restored(0, {});
  BOOST_TEST(!book.done());
  BOOST_TEST(book.consumed() == 0u);
  BOOST_TEST((book.grant(1, 9) == Leases{0, 1, 2}));
}

BOOST_AUTO_TEST_CASE(a_restored_shard_may_know_more_than_the_book) {
  // Its chain's survivor applied what it had not reported yet.
  LeaseBook book{10, 2};
  book.grant(0, 3);
  book.applied(2, 0);
  book.shard_restored(1, LeaseSet{0, {2}});
  BOOST_TEST(book.consumed() == 1u);
  book.worker_lost(0);
  BOOST_TEST((book.grant(1, 3) == Leases{0, 1, 3}));
}

BOOST_AUTO_TEST_CASE(a_new_book_continues_from_the_sets_of_the_shards) {
  // PROTOCOL 16: a restarted coordinator asks before it grants.
  LeaseBook book{10, 2};
  book.shard_restored(0, LeaseSet{4, {6}});
  book.shard_restored(1, LeaseSet{3, {4, 6}});
  BOOST_TEST(book.consumed() == 4u); // 0, 1, 2 and 6
  BOOST_TEST((book.grant(0, 5) == Leases{3, 4, 5, 7, 8}));
}

BOOST_AUTO_TEST_CASE(a_closed_book_ends_with_what_was_granted) {
  LeaseBook book{100, 1};
  book.grant(0, 3);
  book.applied(0, 0);
  book.close();
  BOOST_TEST(book.grant(1, 5).empty());
  BOOST_TEST(!book.done());
  book.worker_lost(0);
  BOOST_TEST((book.grant(1, 5) == Leases{1, 2}));
  book.applied(1, 0);
  book.applied(2, 0);
  BOOST_TEST(book.done());
  BOOST_TEST(book.consumed() == 3u);
  BOOST_TEST(book.total() == 100u);
}

BOOST_AUTO_TEST_CASE(a_book_closed_before_the_first_grant_is_done) {
  LeaseBook book{100, 1};
  book.close();
  BOOST_TEST(book.done());
}

BOOST_AUTO_TEST_CASE(every_lease_is_consumed_once_whatever_dies) {
  // I1, I6 and PROTOCOL 11.
  int deaths = 0;
  int restores = 0;
  for (uint32_t seed = 0; seed < 300; ++seed) {
    Run run{60, 1 + seed % 5, 1 + seed % 4, seed};
    for (int i = 0; i < 1000; ++i)
      run.event();
    run.finish();
    run.check(60);
    BOOST_TEST(run.book.consumed() == 60u);
    deaths += run.deaths;
    restores += run.restores;
  }
  BOOST_TEST(deaths > 300); // the faults really happened
  BOOST_TEST(restores > 300);
}

BOOST_AUTO_TEST_CASE(a_run_that_is_closed_consumes_every_granted_lease) {
  for (uint32_t seed = 0; seed < 100; ++seed) {
    Run run{100'000, 3, 2, seed};
    for (int i = 0; i < 500; ++i)
      run.event();
    run.book.close();
    run.finish();
    BOOST_TEST(run.book.consumed() > 0u);
    BOOST_TEST(run.book.consumed() < 100'000u);
    run.check(run.book.consumed());
  }
}

BOOST_AUTO_TEST_CASE(a_refused_lease_is_granted_again_and_once) {
  LeaseBook book{2, 2};
  book.grant(0, 1);
  BOOST_TEST((book.refused(0) == 0u));
  BOOST_TEST((book.refused(0) == std::nullopt)); // the other shard's refusal
  BOOST_TEST((book.grant(1, 1) == Leases{0}));
  BOOST_TEST(!book.applied(0, 0));
  BOOST_TEST(book.applied(0, 1));
  BOOST_TEST((book.refused(0) == std::nullopt)); // it came too late
  BOOST_TEST((book.grant(1, 2) == Leases{1}));
}

BOOST_AUTO_TEST_CASE(the_leases_in_both_sets_keep_every_hole_of_each) {
  const LeaseSet a{3, {5, 6, 9}};
  const LeaseSet b{2, {4, 5, 6, 7}};
  BOOST_TEST(a.end() == 10u);
  const auto both = intersection(a, b);
  BOOST_TEST(both.floor() == 2u);
  BOOST_TEST((both.above() == Leases{5, 6}));
  BOOST_TEST(intersection(LeaseSet{4, {}}, LeaseSet{7, {9}}).floor() == 4u);
}

BOOST_AUTO_TEST_SUITE_END()
