#include "actors/launch/standby_watch.hpp"
#include "kernels/base/error.hpp"

#include <boost/test/unit_test.hpp>

#include <vector>

using namespace troupe;
using std::chrono::seconds;

namespace standby_watch_test {
namespace {

struct Watched {
  void look(int second) { watch.look(reach, begin + seconds{second}); }

  SteadyClock::time_point begin = SteadyClock::now();
  std::vector<std::string> said;
  VotersReach reach{{{"a:1", true, {}},
                     {"b:1", true, "Connection refused"},
                     {"c:1", false, {}}},
                    false};
  StandbyWatch watch{{"{}", seconds{100},
                      [this](const std::string& x) { said.push_back(x); }},
                     begin};
};

} // namespace

BOOST_FIXTURE_TEST_SUITE(standby_watch, Watched)

BOOST_AUTO_TEST_CASE(who_is_missing_is_said_at_once_and_now_and_then) {
  look(0);
  BOOST_TEST(said.empty()); // the third may answer yet
  reach.voters[2] = {"c:1", true, "no answer"};
  for (int i = 1; i < 30; ++i)
    look(i);
  BOOST_TEST_REQUIRE(said.size() == 1u);
  BOOST_TEST(said[0]
             == "waits for a majority: 1 of 3 voters reached; b:1: "
                "Connection refused; c:1: no answer");
  look(31);
  BOOST_TEST(said.size() == 2u);
}

BOOST_AUTO_TEST_CASE(the_deadline_counts_from_the_last_one_reached) {
  reach.voters.push_back({"d:1", true, "no answer"});
  reach.voters.push_back({"e:1", true, "no answer"});
  look(0);
  look(99);
  reach.voters[2].tried = true;
  look(99);
  look(198);
  BOOST_CHECK_EXCEPTION(look(200), InputError, [](const InputError& x) {
    return std::string{x.what()}.starts_with(
      "no majority within 100 s: 2 of 5 voters reached; b:1: ");
  });
}

BOOST_AUTO_TEST_CASE(a_voter_that_comes_and_goes_holds_up_nothing) {
  // Each time it was told of, and the deadline began anew.
  for (auto* one : {"d:1", "e:1"})
    reach.voters.push_back({one, true, "no answer"});
  for (int i = 0; i < 90; ++i) {
    reach.voters[2] = {"c:1", true, i % 2 == 0 ? "" : "no answer"};
    look(i);
  }
  BOOST_TEST(said.size() <= 30u);
  BOOST_TEST(said.size() > 5u);
  BOOST_CHECK_THROW(look(101), InputError);
}

BOOST_AUTO_TEST_CASE(what_others_say_steers_no_terminal) {
  reach.voters[1].why.clear();
  watch.heard_coordinator("a:2\x1b[2J");
  look(0);
  BOOST_TEST_REQUIRE(said.size() == 1u);
  BOOST_TEST(said[0].ends_with("a:2?[2J"));
}

BOOST_AUTO_TEST_CASE(a_majority_that_was_there_is_waited_for) {
  reach.voters[1].why.clear();
  look(0);
  BOOST_TEST(said.empty());
  reach.voters[1].why = "no answer";
  for (int i = 5; i < 200; ++i)
    look(i);
  BOOST_TEST(said.size() == 7u);
  BOOST_TEST(watch.stopped()
             == "told to stop while it waited for a majority of voters");
  reach.voters[1].why.clear();
  look(200);
  BOOST_TEST(said.back()
             == "a majority is reached: 2 of 3 voters reached; c:1: has not "
                "answered yet");
  BOOST_TEST(watch.stopped() == "told to stop before it led");
}

BOOST_AUTO_TEST_CASE(it_says_once_for_whom_it_stands_by) {
  reach.voters[1].why.clear();
  watch.heard_job("{}");
  watch.heard_coordinator("a:2");
  look(0);
  watch.heard_coordinator("a:2");
  look(1);
  BOOST_TEST_REQUIRE(said.size() == 1u);
  BOOST_TEST(said[0] == "stands by for the coordinator at a:2");
  BOOST_TEST(watch.stopped() == "told to stop while another coordinator led");
}

BOOST_AUTO_TEST_CASE(another_job_is_refused) {
  watch.heard_job(R"({"epochs":9})");
  BOOST_CHECK_EXCEPTION(look(0), InputError, [](const InputError& x) {
    return std::string{x.what()}.find("(--epochs") != std::string::npos;
  });
}

BOOST_AUTO_TEST_SUITE_END()

} // namespace standby_watch_test
