#include "strategies/worker_steps.hpp"

#include <boost/test/unit_test.hpp>

#include <string>

using namespace troupe;

BOOST_AUTO_TEST_SUITE(worker_steps_test)

namespace {

/// What is to be done, in short: "pull 3", "compute 3" …
struct Shown {
  std::string operator()(const WorkerSteps::GiveUp&) const { return "give up"; }
  std::string operator()(const WorkerSteps::Replace&) const {
    return "replace";
  }
  std::string operator()(const WorkerSteps::Pull& x) const {
    return "pull " + std::to_string(x.version) + (x.in_use ? " beside" : "");
  }
  std::string operator()(const WorkerSteps::Begin& x) const {
    return "begin " + std::to_string(x.step);
  }
  std::string operator()(const WorkerSteps::Compute& x) const {
    return (x.begun ? "go on " : "compute ") + std::to_string(x.step);
  }
  std::string operator()(const WorkerSteps::NextStep&) const { return "next"; }
  std::string operator()(const WorkerSteps::Push&) const { return "push"; }
};

std::string shown(const WorkerSteps::Actions& actions) {
  std::string out;
  for (const auto& action : actions)
    out += (out.empty() ? "" : ", ") + std::visit(Shown{}, action);
  return out;
}

uint64_t turn_of(const WorkerSteps::Actions& actions) {
  for (const auto& action : actions) {
    if (const auto* begin = std::get_if<WorkerSteps::Begin>(&action))
      return begin->turn;
    if (const auto* compute = std::get_if<WorkerSteps::Compute>(&action))
      return compute->turn;
  }
  return 0;
}

/// A worker of one of two halves of eight virtual ranks.
struct OneOfTwo {
  explicit OneOfTwo(bool early = false) : steps(nodes, early) {}

  std::string epoch(uint64_t version,
                    const std::vector<RankRange>& missing = {{0, 8}}) {
    nodes.begin_epoch(version, {0, 4}, missing, {{0, 8}}, 8);
    return shown(steps.begin_epoch(version, 10));
  }

  StepNodes nodes;
  WorkerSteps steps;
};

} // namespace

BOOST_AUTO_TEST_CASE(steps_follow_one_another) {
  OneOfTwo it;
  BOOST_TEST(it.epoch(0) == "pull 0");
  BOOST_TEST(shown(it.steps.all_arrived(false)) == "compute 0");
  BOOST_TEST(it.steps.finished(false));
  BOOST_TEST(shown(it.steps.computed()) == "push, pull 1");
  BOOST_TEST(shown(it.steps.all_arrived(false)) == "next, compute 1");
}

BOOST_AUTO_TEST_CASE(slices_of_an_older_version_are_not_awaited) {
  OneOfTwo it;
  BOOST_TEST(!it.steps.awaits(0)); // sealed
  it.epoch(3);
  BOOST_TEST(!it.steps.awaits(2));
  BOOST_TEST(it.steps.awaits(3));
  BOOST_TEST(it.steps.awaits(5)); // k of n: the others are past it
  BOOST_TEST(shown(it.steps.overtaken(5)) == "pull 5");
  BOOST_TEST(!it.steps.awaits(3));
}

BOOST_AUTO_TEST_CASE(what_the_executor_computes_outlives_an_epoch) {
  OneOfTwo it;
  it.epoch(3);
  const auto turn = turn_of(it.steps.all_arrived(false));
  BOOST_TEST(shown(it.steps.seal()).empty());
  BOOST_TEST(it.epoch(3, {}).empty()); // nobody else computes it
  BOOST_TEST(it.steps.current(turn));
  it.steps.finished(false);
  BOOST_TEST(shown(it.steps.computed()) == "push, pull 4");
}

BOOST_AUTO_TEST_CASE(what_is_done_while_sealed_is_sent_by_the_next_epoch) {
  OneOfTwo it;
  it.epoch(3);
  it.steps.all_arrived(false);
  it.steps.seal();
  BOOST_TEST(it.steps.finished(false));
  BOOST_TEST(shown(it.steps.computed()).empty());
  BOOST_TEST(it.epoch(3, {}) == "push, pull 4");
}

BOOST_AUTO_TEST_CASE(what_nobody_has_of_a_step_is_pulled_for_first) {
  OneOfTwo it;
  it.epoch(3);
  it.steps.all_arrived(false);
  it.steps.finished(false);
  it.steps.computed();
  BOOST_TEST(it.epoch(3, {{2, 4}}) == "pull 3");
  BOOST_TEST(shown(it.steps.all_arrived(false)) == "compute 3");
}

BOOST_AUTO_TEST_CASE(a_computation_of_an_undone_step_is_nobodys_business) {
  OneOfTwo it;
  it.epoch(3);
  const auto turn = turn_of(it.steps.all_arrived(false));
  it.steps.seal();
  BOOST_TEST(shown(it.steps.forget()) == "replace");
  it.nodes.forget();
  BOOST_TEST(!it.steps.current(turn));
  BOOST_TEST(it.epoch(0) == "pull 0");
}

BOOST_AUTO_TEST_CASE(it_begins_with_the_first_slices_if_asked_to) {
  OneOfTwo it{true};
  it.epoch(0);
  BOOST_TEST(shown(it.steps.some_arrived(false)).empty()); // nobody gets in
  const auto begun = it.steps.some_arrived(true);
  BOOST_TEST(shown(begun) == "begin 0");
  BOOST_TEST(shown(it.steps.some_arrived(true)).empty()); // once
  BOOST_TEST(!it.steps.pushes_early(turn_of(begun)));
  const auto goes_on = it.steps.all_arrived(false);
  BOOST_TEST(shown(goes_on) == "go on 0");
  BOOST_TEST(turn_of(goes_on) == turn_of(begun));
  BOOST_TEST(it.steps.pushes_early(turn_of(begun)));
  it.steps.finished(false);
  BOOST_TEST(shown(it.steps.computed()) == "push, pull 1");

  OneOfTwo late;
  late.epoch(0);
  BOOST_TEST(shown(late.steps.some_arrived(true)).empty());
}

BOOST_AUTO_TEST_CASE(what_began_early_is_given_up_with_its_version) {
  OneOfTwo it{true};
  it.epoch(0);
  const auto turn = turn_of(it.steps.some_arrived(true));
  BOOST_TEST(shown(it.steps.overtaken(2)) == "give up, pull 2");
  BOOST_TEST(!it.steps.current(turn));
  it.steps.some_arrived(true);
  BOOST_TEST(shown(it.steps.seal()) == "give up");
  BOOST_TEST(shown(it.steps.seal()).empty());
}

BOOST_AUTO_TEST_CASE(who_waited_too_long_at_the_gate_computes_once_more) {
  OneOfTwo it{true};
  it.epoch(0);
  const auto turn = turn_of(it.steps.some_arrived(true));
  const auto again = it.steps.all_arrived(true);
  BOOST_TEST(shown(again) == "give up, compute 0");
  BOOST_TEST(turn_of(again) != turn);

  OneOfTwo told{true}; // before the last slice came
  told.epoch(0);
  told.steps.some_arrived(true);
  BOOST_TEST(!told.steps.finished(true));
  BOOST_TEST(shown(told.steps.all_arrived(true)) == "compute 0");
}

BOOST_AUTO_TEST_CASE(it_pauses_before_a_step_and_ends_where_it_is_told) {
  OneOfTwo it;
  it.epoch(0);
  BOOST_TEST(it.steps.next_step() == 0u);
  it.steps.all_arrived(false);
  BOOST_TEST(it.steps.next_step() == 1u); // the one in hand is begun
  it.steps.pause();
  it.steps.finished(false);
  BOOST_TEST(shown(it.steps.computed()) == "push, pull 1");
  BOOST_TEST(shown(it.steps.all_arrived(false)) == "next");
  BOOST_TEST(shown(it.steps.end_at(2)) == "compute 1");
  it.steps.finished(false);
  it.steps.computed();
  BOOST_TEST(shown(it.steps.all_arrived(false)) == "next"); // it is the end
  BOOST_TEST(shown(it.steps.end_at(2)).empty());
}

BOOST_AUTO_TEST_CASE(a_lease_is_a_computation_of_no_step) {
  OneOfTwo it;
  BOOST_TEST(shown(it.steps.pull_lease(7)) == "pull 7");
  const auto turn = it.steps.compute_lease();
  BOOST_TEST(it.steps.current(turn));
  BOOST_TEST(shown(it.steps.pull_lease(8)) == "pull 8 beside");
  BOOST_TEST(it.steps.finished(false));
  BOOST_TEST(shown(it.steps.forget()).empty());
  BOOST_TEST(!it.steps.current(turn));
}

BOOST_AUTO_TEST_SUITE_END()
