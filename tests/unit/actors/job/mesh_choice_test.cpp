#include "actors/job/mesh_choice.hpp"
#include "actors/job/stage_mesh.hpp"
#include "kernels/base/error.hpp"
#include "kernels/graph/models.hpp"
#include "tests/unit/actors/small_job.hpp"

#include <boost/test/unit_test.hpp>

#include <algorithm>

using namespace troupe;
using namespace troupe::test;

BOOST_AUTO_TEST_SUITE(mesh_choice_suite)

namespace {

/// Eight operators.
JobOptions meshed_job() {
  auto options = small_job();
  options.strategy = Strategy::hybrid;
  options.model = "mlp:20-64-64-64-64-64-64-4";
  options.cut.mesh = {2, 4, 1};
  options.virtual_ranks = 8;
  options.global_batch = 8;
  return options;
}

MeshChoice chosen(const JobOptions& options, uint32_t devices) {
  const auto graph = make_graph(options.model);
  return choose_mesh(
    options, graph, 1,
    std::vector<OperatorTime>(graph.ops.size(), {10, 20, 10, 10}), devices);
}

} // namespace

BOOST_AUTO_TEST_CASE(the_mesh_is_the_fastest_of_all_that_there_are) {
  for (uint32_t devices = 1; devices <= 9; ++devices) {
    const auto choice = chosen(meshed_job(), devices);
    const auto& best = choice.tried.front();
    BOOST_TEST(best.mesh.members() <= devices);
    BOOST_TEST((choice.options.cut.mesh == best.mesh));
    BOOST_TEST((choice.options.strategy == Strategy::hybrid));
    BOOST_TEST(best.step == choice.layout.tried.front().step);
    BOOST_TEST(choice.options.schedule.order != "auto");
    // As each of them is found alone.
    auto fewest = ~uint64_t{0};
    for (uint32_t data = 1; data <= devices; ++data)
      for (uint32_t stages = 1; stages * data <= devices && stages <= 8;
           ++stages) {
        if (data > 8)
          continue;
        auto one = meshed_job();
        one.cut.mesh = {data, stages, 1};
        const auto graph = make_graph(one.model);
        const auto alone = choose_layout(
          one, graph, 1,
          std::vector<OperatorTime>(graph.ops.size(), {10, 20, 10, 10}));
        fewest = std::min(fewest, alone.tried.front().step);
      }
    BOOST_TEST(static_cast<double>(best.step)
               <= 1.01 * static_cast<double>(fewest));
  }
}

BOOST_AUTO_TEST_CASE(seven_devices_are_not_seven_stages) {
  const auto choice = chosen(meshed_job(), 7);
  BOOST_TEST(to_string(choice.tried.front().mesh) == "data=3,stage=2");
  const auto line = to_string(choice, 7);
  BOOST_TEST(line.starts_with("data=3,stage=2 of 7 devices: a step of "), line);
  BOOST_TEST(line.find("(data=2,stage=3 ") != std::string::npos, line);
}

BOOST_AUTO_TEST_CASE(named_cuts_are_of_another_mesh) {
  auto options = meshed_job();
  options.cut.split_at = "dense_1,dense_2,dense_3";
  options.schedule.order = "gpipe";
  const auto choice = chosen(options, 6);
  BOOST_TEST(choice.options.schedule.order == "gpipe");
  BOOST_TEST(choice.options.cut.split_at != options.cut.split_at);
  options.cut.split_at = "flops";
  BOOST_TEST(choose_mesh(options, Job{options, 500}, 6).layout.measured
             == false);
}

BOOST_AUTO_TEST_CASE(tensor_members_stay_as_many_where_there_are_enough) {
  auto options = meshed_job();
  options.cut.mesh = {2, 1, 4};
  options.cut.virtual_slices = 4;
  const auto tensor_of = [&](uint32_t devices) {
    return choose_mesh(options, Job{options, 500}, devices)
      .options.cut.mesh.tensor;
  };
  BOOST_TEST(tensor_of(7) == 4u);
  BOOST_TEST(tensor_of(3) == 1u);
}

BOOST_AUTO_TEST_CASE(no_mesh_keeps_to_a_limit_that_is_too_small) {
  auto options = meshed_job();
  options.cut.device_memory = 1;
  BOOST_CHECK_THROW(choose_mesh(options, Job{options, 500}, 7), UsageError);
  BOOST_CHECK_THROW(chosen(meshed_job(), 0), UsageError);
}

BOOST_AUTO_TEST_SUITE_END()
