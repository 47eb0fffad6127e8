#include "strategies/run_course.hpp"

#include <boost/test/unit_test.hpp>

using namespace troupe;
using Stage = RunCourse::Stage;
using Stopped = RunCourse::Stopped;

BOOST_TEST_DONT_PRINT_LOG_VALUE(RunCourse::Stage)
BOOST_TEST_DONT_PRINT_LOG_VALUE(RunCourse::Stopped)

BOOST_AUTO_TEST_SUITE(run_course)

BOOST_AUTO_TEST_CASE(a_run_ends_by_itself_after_its_last_step) {
  RunCourse run{10};
  BOOST_TEST(!run.is_ending(9));
  BOOST_TEST(run.is_ending(10));
  BOOST_TEST(!run.conclude(false));
  BOOST_TEST(run.is_running());
  BOOST_TEST(run.conclude(true));
  BOOST_TEST(run.stage() == Stage::concluding);
  BOOST_TEST(run.awaits_evaluation());
  run.evaluated();
  BOOST_TEST(!run.awaits_evaluation());
  BOOST_TEST(run.begin_outputs());
  BOOST_TEST(!run.begin_outputs());
  BOOST_TEST(run.makes_outputs());
  run.finish();
  BOOST_TEST(run.is_over());
  BOOST_TEST(!run.conclude(true));
}

BOOST_AUTO_TEST_CASE(the_first_of_several_signals_counts) {
  RunCourse run{10};
  BOOST_TEST(run.stop("terminated", 3) == Stopped::pauses);
  BOOST_TEST(run.stop("interrupted", 3) == Stopped::before);
  BOOST_TEST(run.why() == "terminated");
  BOOST_TEST(run.stage() == Stage::pausing);
  BOOST_TEST(run.is_ending(3));
}

// The step under way commits first, and it may be the last of all.
BOOST_AUTO_TEST_CASE(a_run_that_pauses_has_another_end) {
  RunCourse run{10};
  run.stop("terminated", 3);
  BOOST_TEST(!run.conclude(true)); // which step is the last is not known yet
  BOOST_TEST(!run.ends_early());
  run.end_at(4);
  BOOST_TEST(run.end() == 4u);
  BOOST_TEST(run.ends_early()); // a new epoch's members are told
  BOOST_TEST(!run.awaits_evaluation());
  BOOST_TEST(run.conclude(true));
  // Symptom: a run that was told to end after step 86 made all 600, and hung.
  // Cause: an epoch that began while its checkpoint was written was not told.
  BOOST_TEST(run.ends_early());

  RunCourse all{10};
  all.stop("terminated", 9);
  all.end_at(10);
  BOOST_TEST(!all.ends_early());
}

BOOST_AUTO_TEST_CASE(a_signal_after_the_last_step_only_spares_the_evaluation) {
  RunCourse run{10};
  run.conclude(true);
  BOOST_TEST(run.awaits_evaluation());
  BOOST_TEST(run.stop("hung up", 10) == Stopped::as_is);
  BOOST_TEST(run.stage() == Stage::concluding);
  BOOST_TEST(!run.awaits_evaluation());
  BOOST_TEST(run.end() == 10u);
}

BOOST_AUTO_TEST_CASE(nobody_stops_what_is_over) {
  RunCourse run{10};
  run.finish();
  BOOST_TEST(run.stop("terminated", 2) == Stopped::before);
  BOOST_TEST(!run.is_stopped());
}

BOOST_AUTO_TEST_CASE(each_epoch_is_asked_for_the_last_version_once) {
  RunCourse run{10};
  BOOST_TEST(!run.is_ending(7));
  BOOST_TEST(run.ask_last(3, 7));
  BOOST_TEST(run.is_ending(7));
  BOOST_TEST(run.end() == 7u);
  BOOST_TEST(!run.ask_last(3, 7));
  BOOST_TEST(run.ask_last(4, 6)); // leases were lost with a chain
  BOOST_TEST(run.end() == 6u);
}

BOOST_AUTO_TEST_CASE(a_run_of_leases_ends_early_when_all_are_consumed) {
  RunCourse run{10};
  run.stop("interrupted", 2);
  BOOST_TEST(run.ask_last(1, 3));
  BOOST_TEST(run.stage() == Stage::ending);
  BOOST_TEST(run.conclude(true));
  run.finish();
  BOOST_TEST(!run.ask_last(2, 3));
}

BOOST_AUTO_TEST_SUITE_END()
