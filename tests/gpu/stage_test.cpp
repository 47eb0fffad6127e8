#include "tests/gpu/problem.hpp"
#include "tests/unit/kernels/staged_graph.hpp"

using namespace troupe;
using namespace troupe::test;

BOOST_AUTO_TEST_SUITE(gpu_stage_test, *boost::unit_test::precondition(has_gpu))

namespace {

StagedGraph staged(const std::string& model, Precision precision) {
  return StagedGraph({model, sample_of(model)}, first_gpu, precision);
}

} // namespace

BOOST_AUTO_TEST_CASE(stages_give_the_bits_of_the_whole_graph) {
  for (const std::string model :
       {"mlp:20-24-17-5", "transformer:L1-H2-D16-T8-P0.1"})
    for (auto precision : {Precision::float32, Precision::bfloat16})
      BOOST_TEST_CONTEXT(model << (precision == Precision::bfloat16)) {
        auto graph = staged(model, precision);
        const auto ops = static_cast<uint32_t>(graph.graph.ops.size());
        graph.check({0, ops / 3, 2 * ops / 3});
      }
}

BOOST_AUTO_TEST_CASE(
  wherever_they_are_cut_and_without_parameters_of_their_own) {
  std::vector<std::string> models = {"mlp:20-24-17-5",
                                     "llama:L1-H2-D32-T8-P0.1"};
  if (!on_stand_in())
    models.insert(models.end(), {"cnn", "resnet8", "dlrm"});
  for (const auto& model : models)
    for (auto precision : {Precision::float32, Precision::bfloat16})
      BOOST_TEST_CONTEXT(model << (precision == Precision::bfloat16)) {
        auto graph = staged(model, precision);
        const auto ops = static_cast<uint32_t>(graph.graph.ops.size());
        for (uint32_t cut = 1; cut < ops; ++cut)
          graph.check_one_by_one({0, cut});
      }
}

BOOST_AUTO_TEST_SUITE_END()
