#include "kernels/cuda/resident.hpp"
#include "tests/gpu/problem.hpp"
#include "tests/unit/kernels/resident_check.hpp"

using namespace troupe;
using namespace troupe::test;

namespace {

/// Parameters after some steps on the same batch, and the last loss.
std::pair<std::vector<float>, double> train(const Problem& problem,
                                            DeviceId device, OptimizerKind kind,
                                            double clip_norm) {
  OptimizerOptions rule;
  rule.kind = kind;
  rule.weight_decay = 0.01f;
  auto trainer = make_resident_trainer(problem.graph, device, rule,
                                       problem.batch.rows);
  trainer->set_parameters(problem.parameters.data());
  trainer->load(problem.batch);
  for (uint64_t number = 1; number <= 5; ++number) {
    ResidentTrainer::Step step;
    step.number = number;
    step.learning_rate = 1e-3f / static_cast<float>(number);
    step.samples = static_cast<float>(problem.batch.rows);
    step.clip_norm = clip_norm;
    trainer->step(step);
  }
  std::vector<float> parameters(problem.layout.total);
  trainer->read_parameters(parameters.data());
  return {parameters, trainer->stats().loss_sum};
}

} // namespace

BOOST_AUTO_TEST_SUITE(gpu_resident_test,
                      *boost::unit_test::precondition(has_gpu))

BOOST_AUTO_TEST_CASE(steps_on_the_device_are_those_of_the_host) {
  const Problem problem("mlp:784-64-10", 16);
  for (auto kind :
       {OptimizerKind::sgd, OptimizerKind::momentum, OptimizerKind::nesterov,
        OptimizerKind::adam, OptimizerKind::adamw, OptimizerKind::adagrad,
        OptimizerKind::rmsprop, OptimizerKind::ftrl, OptimizerKind::lamb})
    for (double clip_norm : {0.0, 0.01})
      BOOST_TEST_CONTEXT(to_string(kind) << " clipped at " << clip_norm) {
        const auto [want, loss] = train(problem, {}, kind, clip_norm);
        const auto [have, have_loss] = train(problem, first_gpu, kind,
                                             clip_norm);
        // Adam divides by roots of tiny second moments.
        BOOST_TEST(distance(have, want) < 1e-3);
        BOOST_TEST(have_loss == loss, boost::test_tools::tolerance(1e-3));
        BOOST_CHECK(train(problem, first_gpu, kind, clip_norm).first == have);
      }
}

BOOST_AUTO_TEST_CASE(running_statistics_move_too) {
  const Problem problem("resnet8", on_stand_in() ? 3 : 8);
  const auto want = train(problem, {}, OptimizerKind::sgd, 0).first;
  const auto have = train(problem, first_gpu, OptimizerKind::sgd, 0).first;
  for (size_t i = 0; i < problem.graph.parameters.size(); ++i) {
    const auto& parameter = problem.graph.parameters[i];
    if (parameter.role != ParameterRole::statistic)
      continue;
    const auto begin = problem.layout.offsets[i];
    BOOST_TEST_CONTEXT(parameter.name)
    BOOST_TEST(
      distance({have.begin() + begin, have.begin() + begin + parameter.size()},
               {want.begin() + begin, want.begin() + begin + parameter.size()})
      < 1e-3);
  }
}

// -- the replica, whose updates are those of the host bit by bit --------------

BOOST_AUTO_TEST_CASE(updates_have_the_bits_of_the_host) {
  using enum OptimizerKind;
  const ResidentDevice gpu{first_gpu, first_gpu};
  check_resident_rules(gpu, {sgd, momentum, nesterov, adam, adamw, adagrad,
                             rmsprop, ftrl, lamb});
  OptimizerOptions rule;
  rule.kind = momentum;
  const auto resnet = make_graph("resnet8", sample_of("resnet8"));
  check_resident_steps(gpu, rule, 0.01, resnet);
  if (on_stand_in())
    return;
  check_resident_steps(gpu, rule, 0, resnet);
  rule.kind = lamb;
  for (double clip_norm : {0.0, 0.01})
    check_resident_steps(gpu, rule, clip_norm, resnet);
  check_resident_steps(gpu, rule, 0.01,
                       make_graph(transformer(), sample_of("transformer")));
}

BOOST_AUTO_TEST_CASE(trust_ratios_are_of_whole_layers) {
  const ResidentDevice gpu{first_gpu, first_gpu};
  OptimizerOptions rule;
  rule.kind = OptimizerKind::lamb;
  rule.weight_decay = 0.02f;
  // Blocks of a layer, the last one short; eleven pieces, which have another
  // order by name.
  const auto graph = make_graph("mlp:401-44-4");
  for (double clip_norm : {0.0, 0.05})
    for (uint32_t slices : {1u, 3u, 11u})
      BOOST_TEST_CONTEXT(slices << " slices, clipped to " << clip_norm)
  check_resident_steps(gpu, rule, clip_norm, cut_into_slices(graph, slices));
}

BOOST_AUTO_TEST_CASE(a_gradient_that_is_not_finite_changes_nothing) {
  check_spoiled_gradient(first_gpu);
}

BOOST_AUTO_TEST_CASE(sums_may_pass_through_the_host) {
  check_sums_of_the_host(first_gpu);
}

BOOST_AUTO_TEST_CASE(lazy_tables_keep_rows_that_no_sample_has) {
  check_lazy_tables(first_gpu);
  // Of LAMB the norms, too, are of rows that samples have.
  OptimizerOptions rule;
  rule.kind = OptimizerKind::lamb;
  rule.weight_decay = 0.5f;
  for (bool lazy : {false, true})
    check_resident_steps({first_gpu, first_gpu}, rule, 0.05,
                         make_graph("logreg", clicks(0, 3, 20)), lazy);
}

BOOST_AUTO_TEST_SUITE_END()
