#include "kernels/base/buffer.hpp"
#include "kernels/cuda/resident.hpp"
#include "kernels/data/dataset.hpp"
#include "kernels/graph/models.hpp"
#include "kernels/graph/virtual_slices.hpp"

#include <boost/test/unit_test.hpp>

#include <cmath>
#include <random>
#include <vector>

using namespace troupe;

BOOST_AUTO_TEST_SUITE(resident_test)

namespace {

struct Digits {
  Graph graph;
  Layout layout{graph};
  Buffer parameters{layout.total};
  BatchMemory memory{graph, 12};

  explicit Digits(uint32_t slices = 1)
    : graph(cut_into_slices(make_graph("mlp:20-16-4"), slices)) {
    parameters.fill(0);
    for (uint32_t i = 0; i < graph.parameters.size(); ++i)
      initialize(graph, 3, i, 0, parameters.data() + layout.offsets[i],
                 graph.parameters[i].size());
    std::mt19937 random(9);
    std::uniform_real_distribution<float> draw(-1, 1);
    for (size_t i = 0; i < 12 * 20; ++i)
      memory.features()[i] = draw(random);
    for (size_t i = 0; i < 12; ++i)
      memory.labels()[i] = static_cast<int32_t>(random() % 4);
  }
};

std::vector<float> values(const Digits& digits, const Buffer& buffer) {
  std::vector<float> result;
  for (size_t i = 0; i < digits.graph.parameters.size(); ++i) {
    const auto* first = buffer.data() + digits.layout.offsets[i];
    result.insert(result.end(), first,
                  first + digits.graph.parameters[i].size());
  }
  return result;
}

} // namespace

BOOST_AUTO_TEST_CASE(a_resident_step_is_a_replica_and_an_update) {
  Digits digits;
  OptimizerOptions rule;
  rule.kind = OptimizerKind::adamw;
  rule.weight_decay = 0.1f;
  auto trainer = make_resident_trainer(digits.graph, {}, rule, 12);
  trainer->set_parameters(digits.parameters.data());
  trainer->load(digits.memory.batch(12));
  Buffer gradient(digits.layout.total);
  gradient.fill(0);
  Buffer state(2 * digits.layout.total);
  state.fill(0);
  auto replica = make_replica(digits.graph, {}, 12);
  LeafStats stats;
  for (uint64_t number = 1; number <= 3; ++number) {
    trainer->step({number, 0.01f, 12});
    stats = replica->gradient(digits.parameters.data(), digits.memory.batch(12),
                              gradient.data());
    UpdateArgs args;
    args.samples = 12;
    args.step = number;
    args.learning_rate = 0.01f;
    args.state_stride = digits.layout.total;
    for (size_t i = 0; i < digits.graph.parameters.size(); ++i) {
      const auto offset = digits.layout.offsets[i];
      set_parameter(args, digits.graph.parameters[i]);
      args.gradient_sum = gradient.data() + offset;
      args.in = args.out = digits.parameters.data() + offset;
      args.state_in = args.state_out = state.data() + offset;
      args.count = digits.graph.parameters[i].size();
      update(rule, args);
    }
  }
  Buffer have(digits.layout.total);
  trainer->read_parameters(have.data());
  BOOST_CHECK(values(digits, have) == values(digits, digits.parameters));
  BOOST_TEST(trainer->stats().loss_sum == stats.loss_sum);
  BOOST_TEST(trainer->stats().correct == stats.correct);
}

BOOST_AUTO_TEST_CASE(a_clipped_step_has_the_length_of_its_limit) {
  Digits digits;
  OptimizerOptions rule;
  rule.kind = OptimizerKind::sgd;
  auto trainer = make_resident_trainer(digits.graph, {}, rule, 12);
  trainer->set_parameters(digits.parameters.data());
  trainer->load(digits.memory.batch(12));
  trainer->step({1, 1.0f, 12, 1e-3});
  Buffer have(digits.layout.total);
  trainer->read_parameters(have.data());
  const auto before = values(digits, digits.parameters);
  const auto after = values(digits, have);
  double squares = 0;
  for (size_t i = 0; i < before.size(); ++i) {
    const double moved = double{after[i]} - double{before[i]};
    squares += moved * moved;
  }
  BOOST_TEST(std::sqrt(squares) == 1e-3, boost::test_tools::tolerance(1e-2));
}

BOOST_AUTO_TEST_CASE(lamb_moves_a_layer_by_its_own_length) {
  for (uint32_t slices : {1u, 2u})
    BOOST_TEST_CONTEXT(slices << " slices") {
      Digits digits{slices};
      OptimizerOptions rule;
      rule.kind = OptimizerKind::lamb;
      auto trainer = make_resident_trainer(digits.graph, {}, rule, 12);
      trainer->set_parameters(digits.parameters.data());
      trainer->load(digits.memory.batch(12));
      trainer->step({1, 0.5f, 12});
      Buffer have(digits.layout.total);
      trainer->read_parameters(have.data());
      for (uint32_t layer : {0u, 2u}) { // weights; biases begin with zeros
        double length = 0;
        double moved = 0;
        for (auto piece : pieces_of(digits.graph, layer))
          for (uint64_t i = 0; i < digits.graph.parameters[piece].size(); ++i) {
            const auto at = digits.layout.offsets[piece] + i;
            const double before = digits.parameters.data()[at];
            length += before * before;
            moved += std::pow(have.data()[at] - before, 2);
          }
        BOOST_TEST(std::sqrt(moved) == 0.5 * std::sqrt(length),
                   boost::test_tools::tolerance(1e-5));
      }
    }
}

BOOST_AUTO_TEST_SUITE_END()
