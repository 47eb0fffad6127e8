#include "strategies/sharded_course.hpp"

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <deque>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

using namespace troupe;

namespace sharded_course {
namespace {

/// A worker that owns some ranks of four, and does what the course says. Owners
/// answer when they are told to.
struct Bench {
  using Options = ShardedCourse::Options;

  explicit Bench(Options given = {3, 2, false}) : options(given) {}

  void begin(uint64_t version, RankRange ranks,
             const std::vector<RankRange>& missing, uint64_t end = 10) {
    here.clear();
    asked.clear();
    nodes.begin_epoch(version, ranks, missing, {{0, 4}}, 4);
    take(course.begin_epoch(version, end));
  }
  void begin(uint64_t version = 3, uint64_t end = 10) {
    begin(version, {0, 2}, {{0, 4}}, end);
  }

  void take(const ShardedCourse::Actions& actions) {
    for (const auto& action : actions)
      std::visit([this](const auto& x) { take(x); }, action);
  }
  void take(const ShardedCourse::Gather& x) {
    said += "g" + std::to_string(x.part) + ' ';
    BOOST_TEST(x.version == course.version());
    BOOST_TEST(here.count(x.part) == 0u);
    asked.push_back(x.part);
    held();
  }
  void take(const ShardedCourse::Drop& x) {
    said += "d" + std::to_string(x.part) + ' ';
    BOOST_TEST(here.erase(x.part) == 1u);
  }
  void take(const ShardedCourse::Pass& x) {
    said += (x.forward ? "F" : "B") + std::to_string(x.part) + '@'
            + std::to_string(x.rank) + ' ';
    BOOST_TEST(here.count(x.part) == 1u);
    BOOST_TEST(!running);
    BOOST_TEST(x.step == course.version());
    running = x;
  }
  void take(const ShardedCourse::NextStep&) { said += "| "; }

  void held() { most = std::max(most, here.size() + asked.size()); }

  void answer() {
    BOOST_REQUIRE(!asked.empty());
    const auto part = asked.front();
    asked.pop_front();
    here.insert(part);
    take(course.gathered(part));
  }
  void answer_all() {
    while (!asked.empty())
      answer();
  }
  void finish() {
    BOOST_REQUIRE(running.has_value());
    const auto turn = running->turn;
    running.reset();
    BOOST_TEST(course.current(turn));
    take(course.passed());
    BOOST_TEST(!course.current(turn));
  }
  /// Until nothing more is to be done before some step.
  void run_to(uint64_t step) {
    while (course.version() < step && (running || !asked.empty())) {
      answer_all();
      if (running)
        finish();
    }
  }
  std::string take_said() { return std::exchange(said, {}); }

  Options options;
  StepNodes nodes;
  ShardedCourse course{nodes, options};
  std::deque<uint32_t> asked;
  std::set<uint32_t> here;
  std::optional<ShardedCourse::Pass> running;
  std::string said;
  size_t most = 0;
};

} // namespace
} // namespace sharded_course

BOOST_FIXTURE_TEST_SUITE(sharded_course, Bench)

BOOST_AUTO_TEST_CASE(
  a_leaf_goes_forward_and_backward_with_two_parts_at_a_time) {
  begin(3, {0, 1}, {{0, 4}});
  BOOST_TEST(take_said() == "g0 g1 ");
  run_to(4);
  BOOST_TEST(take_said()
             == "F0@0 d0 g2 F1@0 d1 F2@0 g1 B2@0 d2 g0 B1@0 d1 B0@0 d0 | "
                "g0 g1 ");
  BOOST_TEST(most == 2u);
}

BOOST_AUTO_TEST_CASE(a_part_between_two_leaves_stays) {
  begin();
  run_to(4);
  // Backward through the first part, then forward with the next leaf.
  BOOST_TEST(said.find("B0@0 g1 F0@1 ") != std::string::npos, said);
  BOOST_TEST(std::ranges::count(said, '@') == 12);
  BOOST_TEST(most == 2u);
}

BOOST_AUTO_TEST_CASE(parts_that_are_kept_are_gathered_once_a_step) {
  Bench kept{{3, 2, true}};
  kept.begin();
  kept.run_to(5);
  BOOST_TEST(std::ranges::count(kept.said, 'g') == 3 + 3 + 2);
  BOOST_TEST(kept.said.find("B0@1 d0 d1 d2 | ") != std::string::npos,
             kept.said);
}

BOOST_AUTO_TEST_CASE(any_window_holds_no_more_parts_and_misses_no_pass) {
  for (uint32_t parts = 1; parts < 7; ++parts)
    for (uint32_t window = 1; window < 9; ++window) {
      Bench bench{{parts, window, false}};
      bench.begin();
      bench.run_to(6);
      std::string passes;
      for (int step = 0; step < 3; ++step) {
        for (const auto* rank : {"@0 ", "@1 "}) {
          for (uint32_t i = 0; i < parts; ++i)
            passes += 'F' + std::to_string(i) + rank;
          for (auto i = parts; i-- > 0;)
            passes += 'B' + std::to_string(i) + rank;
        }
        passes += "| ";
      }
      std::string found;
      for (size_t at = 0; at < bench.said.size();) {
        const auto end = bench.said.find(' ', at) + 1;
        if (const auto c = bench.said[at]; c != 'g' && c != 'd')
          found += bench.said.substr(at, end - at);
        at = end;
      }
      BOOST_TEST(found == passes);
      BOOST_TEST(bench.most <= window);
    }
}

BOOST_AUTO_TEST_CASE(an_epoch_leaves_the_ranks_that_nobody_has) {
  begin(3, {0, 4}, {{2, 3}});
  run_to(4);
  BOOST_TEST(std::ranges::count(said, '@') == 6);
  BOOST_TEST(said.find("@2 ") != std::string::npos);
  take_said();
  run_to(5); // all its own
  BOOST_TEST(std::ranges::count(said, '@') == 24);
}

BOOST_AUTO_TEST_CASE(a_step_of_which_nothing_is_missing_is_left_for_the_next) {
  begin(3, {0, 2}, {});
  BOOST_TEST(take_said() == "| g0 g1 ");
  BOOST_TEST(course.version() == 4u);
  BOOST_TEST(course.next_step() == 4u);
}

BOOST_AUTO_TEST_CASE(what_a_seal_breaks_off_has_no_result) {
  begin();
  answer_all();
  const auto turn = running->turn;
  BOOST_TEST(course.current(turn));
  course.seal();
  running.reset();
  BOOST_TEST(!course.current(turn));
  BOOST_TEST(!course.awaits(0));
  take_said();
  begin(3, {0, 2}, {{1, 2}});
  BOOST_TEST(take_said() == "g0 g1 "); // not what was gathered before
  run_to(4);
  BOOST_TEST(said.find("@0 ") > said.find("|"));
}

BOOST_AUTO_TEST_CASE(an_epoch_may_go_back_to_the_step_before) {
  begin();
  run_to(4);
  answer_all();
  course.seal();
  running.reset();
  begin(3, {0, 2}, {{0, 1}});
  BOOST_TEST(course.version() == 3u);
  run_to(4);
  BOOST_TEST(course.version() == 4u);
}

BOOST_AUTO_TEST_CASE(a_leaf_is_taken_anew_from_its_beginning) {
  begin();
  while (said.find("B1@1") == std::string::npos) {
    answer_all();
    finish();
  }
  answer_all();
  take_said();
  BOOST_TEST(!course.was_repeated());
  running.reset();
  take(course.repeat());
  BOOST_TEST(course.was_repeated());
  run_to(4);
  BOOST_TEST(said.find("F0@1") != std::string::npos, said);
  BOOST_TEST(said.find("@0") == std::string::npos, said);
  BOOST_TEST(std::ranges::count(said, '@') == 6);
  BOOST_TEST(!course.was_repeated());
}

BOOST_AUTO_TEST_CASE(the_run_ends_at_its_end) {
  begin(8, 10);
  run_to(10);
  BOOST_TEST(course.version() == 10u);
  BOOST_TEST(asked.empty());
  BOOST_TEST(!running);
  BOOST_TEST(course.next_step() == 10u);
}

BOOST_AUTO_TEST_CASE(a_pause_lets_a_begun_step_end_and_begins_none) {
  begin();
  course.pause(); // nothing has begun
  BOOST_TEST(course.next_step() == 3u);
  answer_all();
  BOOST_TEST(!running);
  take(course.end_at(5));
  BOOST_TEST(running.has_value());
  BOOST_TEST(course.next_step() == 4u);
  course.pause();
  run_to(6);
  BOOST_TEST(course.version() == 4u);
  BOOST_TEST(course.next_step() == 4u);
  take(course.end_at(5));
  run_to(6);
  BOOST_TEST(course.version() == 5u);
  BOOST_TEST(!running);
}

BOOST_AUTO_TEST_SUITE_END()
