#include "strategies/stage_course.hpp"

#include <boost/test/unit_test.hpp>

#include <string>

using namespace troupe;

namespace stage_course {
namespace {

using Phase = StageCourse::Phase;

/// The second of two stages, two micro-batches a step, 10 steps.
struct Bench {
  Bench() { course.begin_epoch(3); }

  void begin(bool rounds) {
    course.begin(stage_actions({PipelineSchedule::one_f_one_b, 2, 2, 1}, 1),
                 rounds);
    course.done();
  }
  /// Takes all passes of a step: "f0 b0 f1 b1".
  std::string pass_all() {
    std::string out;
    while (course.phase() == Phase::passing) {
      const auto pass = course.pass();
      out += (out.empty() ? "" : " ")
             + std::string{pass.pass == StagePass::forward ? "f" : "b"}
             + std::to_string(pass.micro_batch);
      finish();
    }
    return out;
  }
  void finish() {
    course.take();
    course.done();
  }

  StageCourse course{10};
};

} // namespace
} // namespace stage_course

BOOST_FIXTURE_TEST_SUITE(stage_course, Bench)

BOOST_AUTO_TEST_CASE(a_step_is_its_passes_and_an_update) {
  BOOST_TEST((course.phase() == Phase::waiting));
  begin(false);
  BOOST_TEST(course.next_step() == 4u);
  BOOST_TEST(pass_all() == "f0 b0 f1 b1");
  BOOST_TEST((course.phase() == Phase::updating));
  BOOST_TEST(course.version() == 3u);
  finish();
  BOOST_TEST((course.phase() == Phase::waiting));
  BOOST_TEST(course.version() == 4u);
  BOOST_TEST(course.next_step() == 4u);
}

BOOST_AUTO_TEST_CASE(nothing_is_due_while_the_executor_has_something) {
  BOOST_TEST(course.is_due());
  course.begin(stage_actions({PipelineSchedule::gpipe, 2, 2, 1}, 1), false);
  BOOST_TEST(!course.is_due());
  course.done();
  BOOST_TEST(course.is_due());
  course.take();
  BOOST_TEST(!course.is_due());
}

BOOST_AUTO_TEST_CASE(what_a_pass_needs_first_leaves_it_due) {
  begin(false);
  course.prepare();
  BOOST_TEST(!course.is_due());
  course.done();
  BOOST_TEST((course.phase() == Phase::passing));
  BOOST_TEST(pass_all() == "f0 b0 f1 b1");
}

BOOST_AUTO_TEST_CASE(each_round_of_scalars_has_sums_and_what_is_made_of_them) {
  begin(true);
  pass_all();
  for (const bool last : {false, true}) {
    BOOST_TEST((course.phase() == Phase::summing));
    finish();
    BOOST_TEST((course.phase() == Phase::scaling));
    BOOST_TEST(course.is_due()); // those may be here already
    course.scaled(last);
  }
  BOOST_TEST((course.phase() == Phase::updating));
}

BOOST_AUTO_TEST_CASE(beside_other_pipelines_gradients_are_shared_out_first) {
  for (const bool rounds : {false, true}) {
    course = StageCourse{10, StageCourse::Owners::peers};
    course.begin_epoch(3);
    begin(rounds);
    pass_all();
    for (auto phase : {Phase::giving, Phase::adding, Phase::taking}) {
      BOOST_TEST((course.phase() == phase));
      BOOST_TEST(course.is_due());
      BOOST_TEST(course.next_step() == 4u);
      course.take();
      BOOST_TEST(!course.is_due());
      course.done();
    }
    BOOST_TEST((course.phase() == (rounds ? Phase::summing : Phase::updating)));
    BOOST_TEST(course.version() == 3u);
  }
  course.begin_epoch(3); // in the middle of it, too
  begin(false);
  pass_all();
  finish();
  BOOST_TEST((course.phase() == Phase::adding));
  course.begin_epoch(3);
  BOOST_TEST((course.phase() == Phase::waiting));
}

BOOST_AUTO_TEST_CASE(beside_shards_a_step_is_a_pull_its_passes_and_a_push) {
  course = StageCourse{10, StageCourse::Owners::shards};
  course.begin_epoch(3);
  for (const bool rounds : {true, false}) { // shards have those
    const auto version = course.version();
    begin(rounds);
    BOOST_TEST((course.phase() == Phase::pulling));
    BOOST_TEST(course.is_due());
    BOOST_TEST(course.next_step() == version + 1);
    course.pulled();
    BOOST_TEST((course.phase() == Phase::passing));
    BOOST_TEST(pass_all() == "f0 b0 f1 b1");
    BOOST_TEST((course.phase() == Phase::pushing));
    BOOST_TEST(course.version() == version);
    finish();
    BOOST_TEST((course.phase() == Phase::waiting));
    BOOST_TEST(course.version() == version + 1);
  }
  begin(false);
  course.begin_epoch(5); // while it pulls, as at any time
  BOOST_TEST((course.phase() == Phase::waiting));
  BOOST_TEST(course.next_step() == 5u);
}

BOOST_AUTO_TEST_CASE(nothing_is_pulled_of_the_last_version) {
  course = StageCourse{4, StageCourse::Owners::shards};
  course.begin_epoch(3);
  begin(false);
  course.pause(); // the step that is pulled for is taken to its end
  BOOST_TEST(course.is_due());
  course.pulled();
  pass_all();
  finish();
  BOOST_TEST(!course.is_due());
  course.end_at(4);
  BOOST_TEST(!course.is_due());
  course.end_at(5);
  BOOST_TEST(course.is_due());
}

BOOST_AUTO_TEST_CASE(a_pause_lets_a_step_end_and_begins_none) {
  begin(false);
  course.pause();
  BOOST_TEST(course.is_due());
  BOOST_TEST(course.next_step() == 4u);
  pass_all();
  finish();
  BOOST_TEST(!course.is_due());
  course.end_at(5);
  BOOST_TEST(course.is_due());
  begin(false);
  pass_all();
  finish();
  BOOST_TEST(course.version() == course.end());
  BOOST_TEST(!course.is_due());
}

BOOST_AUTO_TEST_CASE(an_epoch_takes_a_step_that_was_under_way_anew) {
  begin(false);
  course.take();
  course.pause();
  course.begin_epoch(2); // what the executor still does is of no use
  BOOST_TEST((course.phase() == Phase::waiting));
  BOOST_TEST(course.is_due());
  BOOST_TEST(course.next_step() == 2u);
  begin(false);
  BOOST_TEST(pass_all() == "f0 b0 f1 b1");
}

BOOST_AUTO_TEST_CASE(one_that_failed_has_nothing_to_do_until_another_epoch) {
  begin(false);
  pass_all();
  course.take();
  course.fail();
  BOOST_TEST(!course.is_due());
  course.end_at(10);
  BOOST_TEST(!course.is_due());
  BOOST_TEST(course.version() == 3u); // the update did not take place
  course.begin_epoch(3);
  BOOST_TEST(course.is_due());
}

BOOST_AUTO_TEST_SUITE_END()
