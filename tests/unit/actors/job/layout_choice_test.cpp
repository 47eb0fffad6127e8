#include "actors/job/job.hpp"
#include "actors/job/layout_choice.hpp"
#include "actors/job/memory_need.hpp"
#include "actors/job/stage_layers.hpp"
#include "kernels/base/error.hpp"
#include "kernels/graph/models.hpp"
#include "tests/unit/actors/small_job.hpp"

#include <boost/test/unit_test.hpp>

#include <algorithm>

using namespace troupe;
using namespace troupe::test;

BOOST_AUTO_TEST_SUITE(layout_choice_suite)

namespace {

JobOptions open_job() {
  auto options = small_job();
  options.strategy = Strategy::pipeline;
  options.model = "mlp:20-64-64-64-64-64-64-4";
  options.stages = 2;
  options.virtual_ranks = 8;
  return options;
}

std::vector<OperatorTime> equal_times(const Graph& graph, OperatorTime one) {
  return std::vector<OperatorTime>(graph.ops.size(), one);
}

std::string chosen_by(JobOptions options, OperatorTime one) {
  const auto graph = make_graph(options.model);
  const auto choice = choose_layout(options, graph, 2, equal_times(graph, one));
  BOOST_TEST(choice.tried.front().schedule.starts_with(options.schedule.order));
  BOOST_TEST(!options.cut.split_at.empty());
  return options.schedule.order;
}

} // namespace

BOOST_AUTO_TEST_CASE(the_schedule_is_the_fastest_by_what_operators_take) {
  BOOST_TEST(chosen_by(open_job(), {10, 20, 10, 10}) == "zero_bubble");
  // Halves that take longer than the whole are no gain; chunks are.
  BOOST_TEST(chosen_by(open_job(), {10, 20, 20, 20}) == "interleaved");
  // One stage waits for none: what holds fewest is enough.
  auto alone = open_job();
  alone.stages = 1;
  const auto graph = make_graph(alone.model);
  choose_layout(alone, graph, 2, equal_times(graph, {10, 20, 10, 10}));
  BOOST_TEST(alone.schedule.order == "1f1b");
  // Micro-batches that are no multiple of the stages go in no chunks.
  auto odd = open_job();
  odd.virtual_ranks = 7;
  BOOST_TEST(chosen_by(odd, {10, 20, 20, 20}) == "1f1b");
}

BOOST_AUTO_TEST_CASE(the_schedule_keeps_to_the_limit_of_memory) {
  auto options = open_job();
  options.global_batch = 4096;
  options.stages = 4;
  options.virtual_ranks = 4;
  const auto most = [&](const char* order) {
    auto named = options;
    named.cut.device_memory = 0;
    named.schedule.order = order;
    uint64_t bytes = 0;
    for (const auto& need : memory_needs(Job{named, 4096}))
      bytes = std::max(bytes, need.bytes());
    return bytes;
  };
  const auto order_under = [&](uint64_t limit) {
    auto limited = options;
    limited.cut.device_memory = limit;
    limited.cut.split_at = "flops";
    choose_layout(limited, Job{limited, 4096});
    return limited.schedule.order;
  };
  const auto fastest = order_under(0);
  BOOST_TEST(most("1f1b") < most(fastest.c_str()));
  BOOST_TEST(order_under(most(fastest.c_str())) == fastest);
  BOOST_TEST(order_under(most("1f1b")) == "1f1b");
  // Where none does, what holds least is said to need too much.
  BOOST_TEST(order_under(1) == "1f1b");
}

BOOST_AUTO_TEST_CASE(what_operators_take_decides_where_stages_begin) {
  auto options = open_job();
  const auto graph = make_graph(options.model);
  for (uint32_t slow : {0u, 4u, 7u}) {
    auto times = equal_times(graph, {10, 20, 10, 10});
    times[slow] = {1000, 2000, 1000, 1000};
    auto one = options;
    one.stages = 3;
    choose_layout(one, graph, 2, times);
    auto cuts = cuts_of(stage_layers(one, graph, 2));
    BOOST_TEST(cuts == one.cut.split_at);
    // It is alone with its stage, as far as there are stages for the others.
    if (slow > 0)
      BOOST_TEST(cuts.find(graph.ops[slow].name) != std::string::npos, cuts);
    if (slow + 1 < graph.ops.size())
      BOOST_TEST(cuts.find(graph.ops[slow + 1].name) != std::string::npos,
                 cuts);
  }
}

BOOST_AUTO_TEST_CASE(what_is_given_is_left_as_it_is) {
  auto options = open_job();
  options.schedule.order = "gpipe";
  options.cut.split_at = "dense_1";
  const auto graph = make_graph(options.model);
  const auto choice = choose_layout(options, graph, 2,
                                    equal_times(graph, {10, 20, 10, 10}));
  BOOST_TEST(choice.tried.size() == 1u);
  BOOST_TEST(options.schedule.order == "gpipe");
  BOOST_TEST(options.cut.split_at == "dense_1");
  BOOST_TEST(!leaves_layout_open(options));
  options.stages = 20;
  options.cut.split_at.clear();
  BOOST_CHECK_THROW(choose_layout(options, graph, 2, {}), UsageError);
}

BOOST_AUTO_TEST_CASE(a_layout_is_the_same_wherever_it_travels) {
  auto options = open_job();
  auto by_flops = options;
  by_flops.cut.split_at = "flops";
  auto line = to_string(choose_layout(by_flops, Job{by_flops, 500}));
  BOOST_TEST(line.starts_with("schedule " + by_flops.schedule.order), line);
  BOOST_TEST(line.find("waiting, by FLOPs (") != std::string::npos, line);
  BOOST_TEST(leaves_layout_open(options));
  line = to_string(choose_layout(options, Job{options, 500}));
  BOOST_TEST(line.find("by operators measured here (") != std::string::npos,
             line);
  BOOST_TEST(!leaves_layout_open(options));
  const Job here{options, 500};
  const Job there{job_from_json(to_json(here.options))};
  auto again = open_job();
  take_layout(again, kept_layout(here.options));
  const Job next{again, 500};
  for (const auto* other : {&there, &next}) {
    BOOST_TEST(other->plan.reduction == here.plan.reduction);
    BOOST_REQUIRE(other->plan.stages.size() == here.plan.stages.size());
    for (size_t k = 0; k < here.plan.stages.size(); ++k)
      BOOST_TEST(other->plan.stages[k].begin == here.plan.stages[k].begin);
  }
  BOOST_CHECK_THROW(take_layout(again, "{}"), InputError);
  // A job that was laid out anew is of another mesh, one of stages or groups.
  auto meshed = here.options;
  meshed.strategy = Strategy::hybrid;
  meshed.cut.mesh = {3, 2, 1};
  take_layout(again, kept_layout(meshed));
  BOOST_TEST((again.strategy == Strategy::hybrid));
  BOOST_TEST((again.cut.mesh == meshed.cut.mesh));
  meshed.cut.mesh = {2, 1, 2};
  take_layout(again, kept_layout(meshed));
  BOOST_TEST((again.cut.mesh == meshed.cut.mesh));
  BOOST_CHECK_THROW(take_layout(again, R"({"mesh":"data=0"})"), InputError);
  BOOST_TEST(kept_layout(small_job()).empty());
}

BOOST_AUTO_TEST_CASE(measured_layouts_have_the_weights_of_one_device) {
  auto alone = open_job();
  alone.strategy = Strategy::one_device;
  const auto whole = weights(alone);
  for (uint32_t stages : {2, 3}) {
    auto options = open_job();
    options.stages = stages;
    BOOST_TEST(weights(options) == whole, stages);
    options.cut.split_at = "flops";
    BOOST_TEST(weights(options) == whole, stages);
  }
}

BOOST_AUTO_TEST_SUITE_END()
