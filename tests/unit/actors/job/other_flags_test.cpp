#include "actors/job/job_options.hpp"
#include "actors/job/other_flags.hpp"

#include <boost/test/unit_test.hpp>

#include <memory>

using namespace troupe;

namespace other_flags_test {
namespace {

template <class Change>
std::string told(Change change) {
  static const JobOptions plain;
  const auto other = std::make_unique<JobOptions>(plain);
  change(*other);
  return other_flags(to_json(plain), to_json(*other));
}

} // namespace

BOOST_AUTO_TEST_SUITE(other_flags_of_a_job)

BOOST_AUTO_TEST_CASE(equal_jobs_have_none) {
  BOOST_TEST(told([](JobOptions&) {}).empty());
}

BOOST_AUTO_TEST_CASE(a_flag_is_named_with_both_values) {
  BOOST_TEST(told([](JobOptions& x) { x.epochs = 60; })
             == "--epochs is 1 there and 60 here");
  BOOST_TEST(told([](JobOptions& x) { x.learning_rate = 0.5; })
             == "--lr is 0.001 there and 0.5 here");
  BOOST_TEST(told([](JobOptions& x) { x.lr.min = 1e-5; })
             == "--min-lr is 0.0 there and 1e-05 here");
  BOOST_TEST(told([](JobOptions& x) { x.lr.warmup_steps = 7; })
             == "--warmup-steps is 0 there and 7 here");
  BOOST_TEST(told([](JobOptions& x) { x.lr.schedule = LrSchedule::step; })
             == "--lr-schedule");
  BOOST_TEST(told([](JobOptions& x) { x.shards = 2; })
             == "--ps is 1 there and 2 here");
  BOOST_TEST(told([](JobOptions& x) { x.eval_data = "csv:f"; })
             == "--eval-data is not given there and csv:f here");
}

BOOST_AUTO_TEST_CASE(what_is_inside_has_its_flag_once) {
  BOOST_TEST(told([](JobOptions& x) { x.cut.mesh = {4, 1, 3}; }) == "--mesh");
  BOOST_TEST(told([](JobOptions& x) { x.rule.beta1 = 0.5; }) == "--beta1");
  BOOST_TEST(told([](JobOptions& x) { x.data_access.memory = 5; })
             == "--data-memory");
  BOOST_TEST(told([](JobOptions& x) {
               x.devices = {"cpu:0", "cpu:1"};
             })
             == "--devices");
  BOOST_TEST(told([](JobOptions& x) { x.strategy = Strategy::pipeline; })
             == "--strategy");
}

BOOST_AUTO_TEST_CASE(long_values_and_many_flags_are_left_out) {
  BOOST_TEST(told([](JobOptions& x) { x.data = std::string(500, 'x'); })
             == "--data");
  BOOST_TEST(told([](JobOptions& x) {
               x.epochs = 2;
               x.steps = 2;
               x.seed = 2;
               x.workers = 5;
               x.model = "cnn";
             }).ends_with(" and 2 more"));
}

BOOST_AUTO_TEST_CASE(no_json_tells_nothing) {
  BOOST_TEST(other_flags("{", "{}").empty());
  BOOST_TEST(other_flags("{}", "{}").empty());
  BOOST_TEST(other_flags("{}", R"({"epochs":9})") == "--epochs");
  BOOST_TEST(
    other_flags(R"({"a":)" + std::string(1'000'000, '['), "{}").empty());
  BOOST_TEST(other_flags(R"({"a":)" + std::string(300'000, '[')
                           + std::string(300'000, ']') + '}',
                         "{}")
               .empty());
}

BOOST_AUTO_TEST_SUITE_END()

} // namespace other_flags_test
