#include "apps/chaos/verdict.hpp"

#include <boost/test/unit_test.hpp>

using namespace troupe;

BOOST_AUTO_TEST_SUITE(chaos_verdict)

namespace {

ChaosEvidence good() {
  ChaosEvidence evidence;
  evidence.asked = 2;
  evidence.summary = nlohmann::ordered_json::parse(R"({
    "steps": 100, "steps_rolled_back": 0, "leaves_recomputed": 3,
    "duplicates_dropped": 1, "weights_sha256": "a", "state_sha256": "b",
    "recoveries": [
      {"kind": "chain_repaired", "role": "ps:0", "phase": "forward",
       "detected_ms": 10.0, "resumed_ms": 30.0, "step": 5},
      {"kind": "ranks_taken_over", "role": "worker:0",
       "detected_ms": 50.0, "resumed_ms": 55.0, "step": 9}]})");
  evidence.undisturbed = evidence.summary;
  evidence.faults.push_back(
    {ChaosKind::kill, StepPhase::forward, {RoleKind::shard, 0}, 0});
  evidence.faults.push_back(
    {ChaosKind::kill, StepPhase::at_once, {RoleKind::worker, 0}, 0});
  evidence.leaves_of_the_lost = 3;
  evidence.before = evidence.after = RoleProcesses::Holdings{9, 300, 50, 4};
  return evidence;
}

std::string failure_of(const ChaosEvidence& evidence) {
  const auto verdict = judge(evidence);
  BOOST_TEST(verdict.at("verdict") == "failed");
  BOOST_TEST_REQUIRE(verdict.at("failures").size() == 1u);
  return verdict.at("failures")[0];
}

} // namespace

BOOST_AUTO_TEST_CASE(a_run_that_lost_nothing_passes) {
  const auto verdict = judge(good());
  BOOST_TEST(verdict.at("verdict") == "passed");
  BOOST_TEST(verdict.at("by_phase").at("forward") == 1);
  BOOST_TEST(verdict.at("by_phase").at("none asked for") == 1);
  BOOST_TEST(verdict.at("next_commit_ms").at("chain_repaired").at("median")
             == 20.0);
}

BOOST_AUTO_TEST_CASE(each_thing_that_is_lost_fails_it) {
  auto other_bits = good();
  other_bits.summary["weights_sha256"] = "c";
  BOOST_TEST(failure_of(other_bits).find("weights_sha256") == 0u);
  auto rolled_back = good();
  rolled_back.summary["steps_rolled_back"] = 4;
  BOOST_TEST(failure_of(rolled_back) == "4 steps were rolled back");
  auto few = good();
  few.asked = 3;
  BOOST_TEST(failure_of(few).find("2 of 3 faults") == 0u);
  auto unheard = good();
  unheard.faults.push_back(unheard.faults.front());
  BOOST_TEST(failure_of(unheard) == "2 losses for 3 deaths");
  auto more = good();
  more.leaves_of_the_lost = 2;
  BOOST_TEST(failure_of(more).find("3 leaves were computed again") == 0u);
  auto unfinished = good();
  unfinished.summary["recoveries"][0]["kind"] = "unfinished";
  BOOST_TEST(failure_of(unfinished) == "a recovery was not over at the end");
  auto counted = good();
  counted.counts = true;
  counted.expected_count = counted.largest_count = 400;
  counted.min_count = 399;
  BOOST_TEST(failure_of(counted) == "an update was lost or applied twice");
}

BOOST_AUTO_TEST_CASE(a_worker_is_lost_with_the_shard_of_its_process) {
  auto paired = good();
  paired.paired = true;
  BOOST_TEST(failure_of(paired) == "2 losses for 4 deaths");
  auto& recoveries = paired.summary["recoveries"];
  recoveries.push_back(recoveries[0]);
  recoveries.push_back(recoveries[1]);
  BOOST_TEST(judge(paired).at("verdict") == "passed");
  recoveries.push_back(recoveries[0]);
  BOOST_TEST(failure_of(paired)
             == "1 roles were lost that no fault had struck");
}

BOOST_AUTO_TEST_CASE(who_reads_and_dies_is_no_loss_of_the_job) {
  auto readers = good();
  readers.asked = 4;
  for (auto kind : {ChaosKind::kill, ChaosKind::stop})
    readers.faults.push_back(
      {kind, StepPhase::at_once, {RoleKind::reader, 0}, 2'000});
  BOOST_TEST(judge(readers).at("verdict") == "passed");
  auto others = readers;
  others.summary["recoveries"].push_back(others.summary["recoveries"][0]);
  BOOST_TEST(failure_of(others)
             == "1 roles were lost that no fault had struck");
}

BOOST_AUTO_TEST_CASE(what_is_left_behind_fails_it) {
  auto process = good();
  process.left.emplace_back("worker:1 (77)");
  BOOST_TEST(failure_of(process) == "the run is over, worker:1 (77) is not");
  auto descriptors = good();
  descriptors.after->descriptors = 301;
  BOOST_TEST(failure_of(descriptors)
             == "after the last fault the job held 301 descriptors, and 300 "
                "would do");
  auto sockets = good();
  sockets.link_ends = 4;
  sockets.after->sockets = 54;
  BOOST_TEST(judge(sockets).at("verdict") == "passed");
  ++sockets.after->sockets;
  BOOST_TEST(failure_of(sockets).find("55 sockets") != std::string::npos);
  auto memory = good();
  ++memory.after->memory_files;
  BOOST_TEST(failure_of(memory).find("memory files") != std::string::npos);
  auto fewer = good();
  --fewer.after->descriptors;
  BOOST_TEST(judge(fewer).at("verdict") == "passed");
}

BOOST_AUTO_TEST_CASE(a_job_that_does_not_go_on_where_it_ended_fails_it) {
  auto ended = good();
  ended.endings.push_back({ChaosKind::signal_all, 70, 0, {"it began anew"}});
  const auto verdict = judge(ended);
  BOOST_TEST(verdict.at("verdict") == "failed");
  BOOST_TEST(verdict.at("failures")[0] == "it began anew");
  BOOST_TEST(verdict.at("endings")[0].at("kind") == "signal-all");
  BOOST_TEST(verdict.at("endings")[0].at("steps") == 70);
}

BOOST_AUTO_TEST_CASE(want_of_memory_that_is_not_told_as_that_fails_it) {
  auto starved = good();
  starved.faults.front().kind = ChaosKind::memory;
  BOOST_TEST(judge(starved).at("failures")[0]
             == "0 of 1 workers without memory were said to be that");
  starved.lacked_memory = 1;
  BOOST_TEST(judge(starved).at("verdict") == "passed");
}

BOOST_AUTO_TEST_CASE(a_short_pause_loses_nobody_and_a_long_one_may) {
  auto paused = good();
  paused.asked = 2;
  paused.faults.back() = {
    ChaosKind::stop, StepPhase::push, {RoleKind::worker, 0}, 300};
  BOOST_TEST(failure_of(paused)
             == "1 roles were lost that no fault had struck");
  auto restarted = paused;
  restarted.faults.front().role.kind = RoleKind::coordinator;
  BOOST_TEST(judge(restarted).at("verdict") == "passed");
  paused.faults.back().amount = 2'000;
  const auto verdict = judge(paused);
  BOOST_TEST(verdict.at("verdict") == "passed");
  BOOST_TEST(verdict.at("faults").at("stop").at("by_phase").at("push") == 1);
  BOOST_TEST(verdict.at("faults").at("kill").at("count") == 1);
}

BOOST_AUTO_TEST_SUITE_END()
