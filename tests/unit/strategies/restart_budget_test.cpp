#include "strategies/restart_budget.hpp"

#include <boost/test/unit_test.hpp>

#include <vector>

using namespace troupe;

BOOST_AUTO_TEST_SUITE(restart_budget)

namespace {

constexpr RoleId worker0{RoleKind::worker, 0};
constexpr RoleId shard1{RoleKind::shard, 1};

} // namespace

BOOST_AUTO_TEST_CASE(a_dead_role_is_restarted_with_the_reason) {
  RestartBudget budget{5};
  budget.died(worker0, "signal 9");
  auto verdict = budget.died(worker0, "signal 9");
  BOOST_TEST(verdict.restart);
  BOOST_TEST(verdict.left == 3u);
  BOOST_TEST(verdict.reason == "worker:0 died (signal 9): restart 2 of 5");
}

BOOST_AUTO_TEST_CASE(who_ends_with_a_host_costs_one_restart) {
  RestartBudget budget{1};
  RestartBudget::Life with_others;
  with_others.beside = true;
  BOOST_TEST(budget.died(worker0, "its host is lost").restart);
  for (uint32_t i = 1; i < 7; ++i) {
    const auto verdict = budget.died({RoleKind::worker, i}, "its host is lost",
                                     with_others);
    BOOST_TEST(verdict.restart);
    BOOST_TEST(verdict.reason
               == "worker:" + std::to_string(i)
                    + " died (its host is lost): restart 1 of 1");
  }
  BOOST_TEST(!budget.died(shard1, "signal 9").restart);
  RestartBudget none{0};
  BOOST_TEST(!none.died(worker0, "", with_others).restart);
}

// Symptom: a cable that was out for 15 s ended a run whose host was back: each
// of the host's roles, and each try to reach it, spent a restart.
BOOST_AUTO_TEST_CASE(a_host_that_is_away_costs_nothing_for_a_minute) {
  RestartBudget budget{2};
  RestartBudget::Life lost{3'000, true};
  lost.away = true;
  const auto at = [&](uint64_t now_ms) {
    return budget.died(worker0, "its host is lost", lost, now_ms);
  };
  std::vector<uint64_t> delays;
  for (uint64_t now_ms = 7'000; now_ms < 67'000; now_ms += 10'000) {
    const auto verdict = at(now_ms);
    BOOST_TEST(verdict.restart);
    BOOST_TEST(verdict.left == 2u);
    delays.push_back(verdict.delay_ms);
  }
  BOOST_TEST(delays
               == (std::vector<uint64_t>{100, 400, 1600, 5000, 5000, 5000}),
             boost::test_tools::per_element());
  BOOST_TEST(at(8'000).reason
             == "worker:0 died (its host is lost): started again in 5.0 s");
  // What dies elsewhere meanwhile counts.
  BOOST_TEST(budget.died(shard1, "signal 9", {}, 9'000).left == 1u);
  BOOST_TEST(at(67'000).left == 0u);
  BOOST_TEST(!at(68'000).restart); // I12
  budget.committed(0);
  BOOST_TEST(at(90'000).left == 2u);
  RestartBudget none{0};
  BOOST_TEST(!none.died(worker0, "", lost, 0).restart);
}

BOOST_AUTO_TEST_CASE(restarts_without_progress_end) {
  // I12.
  RestartBudget budget{3};
  for (int i = 0; i < 3; ++i)
    BOOST_TEST(budget.died(i % 2 == 0 ? worker0 : shard1, "").restart);
  for (int i = 0; i < 5; ++i) {
    auto verdict = budget.died(shard1, "exit 1");
    BOOST_TEST(!verdict.restart);
    BOOST_TEST(verdict.left == 0u);
    BOOST_TEST(verdict.reason
               == "ps:1 died (exit 1): all 3 restarts were spent without a "
                  "committed step; look at the role's last output");
  }
}

BOOST_AUTO_TEST_CASE(a_committed_step_gives_the_budget_back) {
  RestartBudget budget{2};
  for (uint64_t step = 0; step < 10; ++step) {
    BOOST_TEST(budget.died(worker0, "").restart);
    BOOST_TEST(budget.died(worker0, "").restart);
    budget.committed(step);
  }
}

BOOST_AUTO_TEST_CASE(repeating_steps_after_a_rollback_is_no_progress) {
  RestartBudget budget{1};
  budget.committed(10);
  BOOST_TEST(budget.died(worker0, "").restart);
  for (uint64_t step = 5; step <= 10; ++step)
    budget.committed(step);
  BOOST_TEST(!budget.died(worker0, "").restart);
  budget.committed(11);
  BOOST_TEST(budget.died(worker0, "").restart);
}

BOOST_AUTO_TEST_CASE(a_budget_of_zero_restarts_nothing) {
  RestartBudget budget{0};
  auto verdict = budget.died(worker0, "exit 1");
  BOOST_TEST(!verdict.restart);
  BOOST_TEST(verdict.reason == "worker:0 died (exit 1): restarts are off");
}

BOOST_AUTO_TEST_CASE(what_is_left_of_a_budget_comes_back_with_a_step) {
  RestartBudget budget{3};
  budget.died(worker0, "");
  BOOST_TEST(budget.left() == 2u);
  budget.committed(7);
  BOOST_TEST(budget.left() == budget.budget());
}

// A program that was replaced during the run: five restarts in no time, and the
// end, though all others lived.
BOOST_AUTO_TEST_CASE(restarts_that_follow_each_other_closely_wait_longer) {
  RestartBudget budget{8};
  const RestartBudget::Life brief{2, true, false};
  std::vector<uint64_t> delays;
  for (int i = 0; i < 6; ++i)
    delays.push_back(budget.died(worker0, "exit status 1", brief).delay_ms);
  BOOST_TEST(delays
               == (std::vector<uint64_t>{100, 400, 1600, 2000, 2000, 2000}),
             boost::test_tools::per_element());
  BOOST_TEST(budget.died(shard1, "", brief).reason
             == "ps:1 died: restart 7 of 8 in 0.1 s");
  // A longer life begins anew.
  BOOST_TEST(budget.died(worker0, "", {6'000, true, false}).delay_ms == 0u);
  budget.committed(0);
  BOOST_TEST(budget.died(worker0, "", brief).delay_ms == 100u);
}

BOOST_AUTO_TEST_CASE(who_is_killed_by_others_comes_back_at_once) {
  RestartBudget budget{8};
  for (int i = 0; i < 4; ++i)
    BOOST_TEST(budget.died(worker0, "signal 9", {400, false, false}).delay_ms
               == 0u);
  // However soon: who strikes a run on purpose strikes newcomers, too.
  BOOST_TEST(budget.died(worker0, "signal 9", {20, false, false}).delay_ms
             == 0u);
}

BOOST_AUTO_TEST_CASE(what_twice_had_too_little_memory_is_not_started_again) {
  RestartBudget budget{5};
  const RestartBudget::Life poor{3'000, true, true};
  BOOST_TEST(budget.died(worker0, "memory", poor).restart);
  BOOST_TEST(budget.died(shard1, "memory", poor).restart);
  const auto verdict = budget.died(worker0, "memory", poor);
  BOOST_TEST(!verdict.restart);
  BOOST_TEST(verdict.reason
             == "worker:0 died (memory), twice: it does not fit; give it more "
                "memory, or a smaller model or batch");
  // One that grew for an hour, or died of something else between, may go on.
  BOOST_TEST(budget.died(shard1, "memory", {3'600'000, true, true}).restart);
  BOOST_TEST(budget.died(shard1, "signal 9", {50, false, false}).restart);
  BOOST_TEST(budget.died(shard1, "memory", poor).restart);
}

// A file that was cut short took five restarts to end a run.
BOOST_AUTO_TEST_CASE(who_read_what_is_wrong_twice_is_not_started_again) {
  RestartBudget budget{5};
  RestartBudget::Life misled;
  misled.ms = 40;
  misled.input = true;
  BOOST_TEST(budget.died(worker0, "a.csv: ends early", misled).restart);
  BOOST_TEST(budget.died(shard1, "a.csv: ends early", misled).restart);
  const auto verdict = budget.died(worker0, "a.csv: ends early", misled);
  BOOST_TEST(!verdict.restart);
  BOOST_TEST(verdict.left == 3u);
  BOOST_TEST(verdict.reason
             == "worker:0 died (a.csv: ends early), twice: it would read the "
                "same again");
  // A disk that fails once an hour, or another end between.
  BOOST_TEST(budget.died(shard1, "signal 9").restart);
  BOOST_TEST(budget.died(shard1, "a.csv: ends early", misled).restart);
  misled.ms = 3'600'000;
  BOOST_TEST(budget.died(shard1, "a.csv: ends early", misled).restart);
}

BOOST_AUTO_TEST_SUITE_END()
