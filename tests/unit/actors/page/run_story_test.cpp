#include "actors/page/run_story.hpp"

#include <boost/test/unit_test.hpp>
#include <nlohmann/json.hpp>

using namespace troupe;

BOOST_AUTO_TEST_SUITE(run_story)

namespace {

nlohmann::ordered_json told(const RunStory& story, uint64_t seen = 0) {
  nlohmann::ordered_json out;
  story.tell(seen, out);
  return out;
}

/// A run of a step and 64 samples a second.
PagePoint point_at(uint64_t second) {
  return {1'000'000 + 1000 * second, second, 64 * second,
          1.0 / static_cast<double>(second + 1)};
}

} // namespace

BOOST_AUTO_TEST_CASE(who_has_seen_a_part_is_told_the_rest) {
  RunStory story;
  story.add(point_at(0));
  story.add_event(7, "death", "worker:1 after step 0");
  const auto seen = story.newest();
  story.add(point_at(1));
  story.add_line(8, "worker:1 is back");
  const auto all = told(story);
  BOOST_TEST(all["points"].size() == 2u);
  BOOST_TEST(all["points"][0].dump() == "[1000000,0,1.0,null]");
  BOOST_TEST(all["events"].dump()
             == R"([[7,"death","worker:1 after step 0"]])");
  const auto rest = told(story, seen);
  BOOST_TEST(rest["points"].dump() == "[[1001000,1,0.5,64.0]]");
  BOOST_TEST(rest["events"].empty());
  BOOST_TEST(rest["lines"].dump() == R"([[8,"worker:1 is back"]])");
  BOOST_TEST(told(story, story.newest())["points"].empty());
}

BOOST_AUTO_TEST_CASE(a_long_run_has_a_coarser_curve_of_all_of_it) {
  RunStory story;
  const uint64_t seconds = 20'000;
  for (uint64_t i = 0; i < seconds; ++i)
    story.add(point_at(i));
  const auto points = told(story)["points"];
  BOOST_TEST(points.size() >= RunStory::max_points / 2 - 1);
  BOOST_TEST(points.size() <= RunStory::max_points);
  BOOST_TEST(points.front()[1] == 0u);
  BOOST_TEST(points.back()[1].get<uint64_t>() > seconds - 100);
  // What lies between two of them is in the rate.
  BOOST_TEST(points.back()[3] == 64.0);
}

BOOST_AUTO_TEST_CASE(steps_that_are_undone_have_no_rate) {
  RunStory story;
  story.add(point_at(5));
  auto back = point_at(6);
  back.samples = 64;
  story.add(back);
  BOOST_TEST(told(story)["points"][1][3].is_null());
}

BOOST_AUTO_TEST_CASE(events_and_lines_are_bounded) {
  RunStory story;
  for (uint64_t i = 0; i < 3 * RunStory::max_texts; ++i) {
    story.add_event(i, "note", std::string(10'000, 'x'));
    story.add_line(i, "line " + std::to_string(i));
  }
  const auto all = told(story);
  BOOST_TEST(all["events"].size() == RunStory::max_texts);
  BOOST_TEST(all["events"][0][2].get<std::string>().size()
             < RunStory::max_text_bytes + 10);
  BOOST_TEST(all["lines"].size() == RunStory::max_texts);
  BOOST_TEST(all["lines"].back()[1] == "line 599");
}

// A role's name for itself, a path or a message may be any bytes.
BOOST_AUTO_TEST_CASE(text_is_what_may_be_shown) {
  RunStory story;
  story.add_line(1, "<b>\x1b[2J\xff");
  BOOST_TEST(told(story)["lines"][0][1] == "<b>?[2J?");
}

BOOST_AUTO_TEST_SUITE_END()
