#include "actors/page/run_story.hpp"

#include <boost/test/unit_test.hpp>
#include <nlohmann/json.hpp>

#include <algorithm>

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

BOOST_AUTO_TEST_CASE(points_lie_apart_as_evenly_as_the_run_is_long) {
  RunStory story;
  for (uint64_t i = 0; i < 20'000; ++i)
    story.add(point_at(i));
  const auto points = told(story)["points"];
  uint64_t least = 20'000;
  uint64_t most = 0;
  for (size_t i = 1; i < points.size(); ++i) {
    const auto apart = points[i][1].get<uint64_t>()
                       - points[i - 1][1].get<uint64_t>();
    least = std::min(least, apart);
    most = std::max(most, apart);
  }
  BOOST_TEST(least >= 20u);
  BOOST_TEST(most <= 2 * least);
}

BOOST_AUTO_TEST_CASE(commits_at_one_moment_are_one_point) {
  RunStory story;
  for (uint64_t step = 1; step <= 5; ++step)
    story.add({1'000'000, step, 64 * step, 1.0});
  story.add({1'000'100, 6, 384, 0.5});
  const auto points = told(story)["points"];
  BOOST_TEST(points.dump() == "[[1000000,1,1.0,null],[1000100,6,0.5,3200.0]]");
}

BOOST_AUTO_TEST_CASE(a_clock_that_is_set_back_does_not_end_the_curve) {
  RunStory story;
  story.add(point_at(5000));
  for (uint64_t i = 0; i < 10; ++i)
    story.add(point_at(100 + i));
  const auto points = told(story)["points"];
  BOOST_TEST(points.size() >= 10u);
  BOOST_TEST(points.back()[0].get<uint64_t>()
             > points.front()[0].get<uint64_t>() + 5'000);
}

BOOST_AUTO_TEST_CASE(the_whole_run_is_told_in_columns_up_to_its_end) {
  RunStory story;
  story.add_event(1'000'500, "death", "worker:1 after step 0");
  for (uint64_t i = 0; i < 5'000; ++i)
    story.add(point_at(i));
  story.add({1'000'000 + 4'999'001, 5'001, 64 * 5'001, 0.123456789});
  nlohmann::ordered_json whole;
  story.tell_whole(1'000'000, whole);
  const auto& curve = whole["curve"];
  BOOST_TEST(curve["step"].size() <= RunStory::max_whole_points);
  BOOST_TEST(curve["step"].size() > RunStory::max_whole_points / 3);
  for (const auto* column : {"seconds", "loss", "samples_per_second"})
    BOOST_TEST(curve[column].size() == curve["step"].size());
  BOOST_TEST(curve["seconds"].front() == 0.0);
  BOOST_TEST(curve["samples_per_second"].front().is_null());
  BOOST_TEST(curve["samples_per_second"][1] == 64.0);
  BOOST_TEST(curve["step"].back() == 5'001u);
  BOOST_TEST(curve["loss"].back() == 0.123457);
  BOOST_TEST(whole["events"].dump()
             == R"([{"seconds":0.5,"kind":"death",)"
                R"("text":"worker:1 after step 0"}])");
  nlohmann::ordered_json nothing;
  RunStory{}.tell_whole(0, nothing);
  BOOST_TEST(nothing["curve"]["step"].empty());
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
