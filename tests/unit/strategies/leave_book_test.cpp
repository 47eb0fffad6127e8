#include "strategies/leave_book.hpp"

#include <boost/test/unit_test.hpp>

#include <algorithm>

// Symptom: SIGTERM to every process of a job lost work. Cause: each role asked
// to leave by itself, the last of its kind was refused, and took with it what
// it alone had.

using namespace troupe;

BOOST_AUTO_TEST_SUITE(leave_book)

namespace {

using Kind = LeaveBook::Kind;

constexpr RoleId worker0{RoleKind::worker, 0};
constexpr RoleId worker1{RoleKind::worker, 1};
constexpr RoleId shard0{RoleKind::shard, 0};
constexpr RoleId shard1{RoleKind::shard, 1};
const std::set<RoleId> served{worker0, worker1, shard0, shard1};
const std::set<RoleId> replicas{worker0, worker1};

} // namespace

BOOST_AUTO_TEST_CASE(nothing_is_decided_before_the_others_may_have_heard) {
  LeaveBook book{{300}};
  BOOST_CHECK(book.look(served, 0).kind == Kind::wait);
  book.ask(worker1, "terminated", 1'000);
  BOOST_CHECK(book.look(served, 1'299).kind == Kind::wait);
  const auto verdict = book.look(served, 1'300);
  BOOST_CHECK(verdict.kind == Kind::leave);
  BOOST_CHECK(verdict.role == worker1);
  BOOST_TEST(verdict.why == "terminated");
  BOOST_CHECK(book.look(served, 9'000).kind == Kind::wait);
}

BOOST_AUTO_TEST_CASE(all_stages_or_all_tensor_members_end_the_run) {
  for (const auto kind : {RoleKind::stage, RoleKind::tensor}) {
    const std::set<RoleId> split{{kind, 0}, {kind, 1}};
    LeaveBook book{{300}};
    book.ask({kind, 1}, "hung up", 0);
    book.ask({kind, 0}, "terminated", 10);
    const auto verdict = book.look(split, 300);
    BOOST_CHECK(verdict.kind == Kind::end_run);
    BOOST_CHECK(verdict.role == RoleId(kind, 1));
    BOOST_TEST(verdict.why == "hung up");
  }
}

BOOST_AUTO_TEST_CASE(one_after_the_other_leaves) {
  LeaveBook book{{300}};
  book.ask(shard1, "terminated", 0);
  book.ask(worker0, "terminated", 10);
  book.ask(shard1, "terminated", 20); // again
  BOOST_CHECK(book.look(served, 400).role == shard1);
  BOOST_CHECK(book.look({worker0, worker1, shard0}, 400).role == worker0);
  BOOST_CHECK(book.look({worker1, shard0}, 400).kind == Kind::wait);
}

BOOST_AUTO_TEST_CASE(the_run_ends_when_all_of_a_kind_are_told_in_any_order) {
  for (const auto& told :
       {std::vector{worker0, worker1}, std::vector{worker1, worker0},
        std::vector{shard1, shard0},
        std::vector{shard0, worker1, worker0, shard1}}) {
    LeaveBook book{{300}};
    for (auto role : told)
      book.ask(role, "terminated", 0);
    const auto verdict = book.look(served, 300);
    BOOST_CHECK(verdict.kind == Kind::end_run);
    BOOST_CHECK(verdict.role == told.front());
    BOOST_TEST(verdict.why == "terminated");
    const bool of_workers = std::ranges::count(told, worker0) > 0;
    BOOST_TEST(verdict.reason
               == (of_workers ? "all workers were told to leave"
                              : "all shards were told to leave"));
  }
}

BOOST_AUTO_TEST_CASE(the_last_one_ends_the_run_though_others_left_before) {
  LeaveBook book{{300}};
  book.ask(worker0, "hung up", 0);
  BOOST_CHECK(book.look(replicas, 300).kind == Kind::leave);
  book.ask(worker1, "hung up", 350);
  BOOST_CHECK(book.look({worker1}, 649).kind == Kind::wait);
  BOOST_CHECK(book.look({worker1}, 650).kind == Kind::end_run);
}

BOOST_AUTO_TEST_CASE(who_comes_in_place_of_a_dead_one_was_told_nothing) {
  LeaveBook book{{300}};
  book.ask(worker0, "terminated", 0);
  book.ask(worker1, "terminated", 0);
  book.forget(worker0);
  BOOST_CHECK(book.look(replicas, 300).role == worker1);
  BOOST_CHECK(book.look(replicas, 300).kind == Kind::wait);
}

BOOST_AUTO_TEST_SUITE_END()
