#pragma once

#include "kernels/graph/models.hpp"
#include "kernels/graph/virtual_slices.hpp"
#include "kernels/optimizer/norms.hpp"
#include "kernels/optimizer/resident_replica.hpp"
#include "tests/unit/kernels/drawn_problem.hpp"

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

namespace troupe::test {

/// A device that keeps variables, and how near its numbers are to updates by
/// the host: differences() of a device whose gradients are the same are 0.
struct ResidentDevice {
  DeviceId device;
  DeviceId of_gradients; ///< whose gradients the host updates by
  double max_of_values = 0;
  double max_of_state = 0;
  double max_of_loss = 0; ///< percent

  /// Below the bound, or none at all.
  static void check(double difference, double bound) {
    BOOST_CHECK_MESSAGE(difference == 0 || difference < bound,
                        "off by " << difference << ", allowed is " << bound);
  }
};

/// Gives each layer of these updates, by parameter, its trust ratio.
inline void set_trust_ratios(const Graph& graph, const OptimizerOptions& rule,
                             std::vector<UpdateArgs>& updates) {
  for (uint32_t layer = 0; layer < whole_parameters(graph).size(); ++layer) {
    std::vector<double> sums[2];
    for (auto piece : pieces_of(graph, layer)) {
      std::vector<double> values(norm_blocks(updates[piece].count));
      auto directions = values;
      lamb_square_sum_blocks(rule, updates[piece], values.data(),
                             directions.data());
      sums[0].push_back(tree_sum(values));
      sums[1].push_back(tree_sum(directions));
    }
    for (auto piece : pieces_of(graph, layer))
      updates[piece].trust_ratio = trust_ratio(tree_sum(sums[0]),
                                               tree_sum(sums[1]));
  }
}

/// Three steps of two micro-batches each, on a device that keeps everything and
/// as the host does it.
inline void check_resident_steps(const ResidentDevice& on,
                                 const OptimizerOptions& rule, double clip_norm,
                                 const Graph& graph, bool lazy = false) {
  DrawnProblem problem{graph, 4};
  const auto& layout = problem.layout;
  const auto slots = std::max(1u, state_slots(rule.kind));
  Buffer parameters{layout.total};
  Buffer state{slots * layout.total};
  Buffer gradient{layout.total};
  Buffer sum{layout.total};
  std::copy_n(problem.parameters.data(), layout.total, parameters.data());
  state.fill(0);
  const auto host = make_replica(graph, on.of_gradients, 4);
  const auto device = make_resident_replica(graph, on.device, rule, 4);
  BOOST_REQUIRE(device != nullptr);
  device->write(parameters.data(), state.data(), layout.total);
  for (uint64_t number = 1; number <= 3; ++number) {
    sum.fill(0);
    device->forget_gradients();
    for (uint32_t rows : {4u, 3u}) {
      auto batch = problem.batch;
      batch.rows = rows;
      batch.key = number;
      batch.step = {7, 2};
      gradient.fill(0);
      const auto want = host->gradient(parameters.data(), batch,
                                       gradient.data());
      device->push_gradient(batch);
      const auto found = device->next_stats();
      BOOST_TEST(found.loss_sum == want.loss_sum,
                 boost::test_tools::tolerance(on.max_of_loss / 100));
      for (size_t i = 0; i < layout.total; ++i)
        sum.data()[i] += gradient.data()[i];
    }
    device->add_gradients();
    ResidentReplica::Update how;
    how.number = number;
    how.learning_rate = 0.05f;
    how.samples = 7;
    how.clip_norm = clip_norm;
    how.lazy_tables = lazy;
    BOOST_CHECK(device->update(how));
    std::vector<double> sums;
    for (auto i : order_by_name(graph)) {
      std::vector<double> blocks(norm_blocks(graph.parameters[i].size()));
      square_sum_blocks(sum.data() + layout.offsets[i],
                        graph.parameters[i].size(), blocks.data());
      sums.push_back(tree_sum(blocks));
    }
    UpdateArgs args;
    args.samples = 7;
    args.step = number;
    args.learning_rate = 0.05f;
    args.state_stride = layout.total;
    if (clip_norm > 0)
      args.gradient_scale = clip_scale(mean_norm(tree_sum(sums), 7), clip_norm);
    std::vector<UpdateArgs> updates;
    for (size_t i = 0; i < graph.parameters.size(); ++i) {
      const auto at = layout.offsets[i];
      set_parameter(args, graph.parameters[i]);
      args.lazy = lazy && graph.parameters[i].by_rows;
      args.gradient_sum = sum.data() + at;
      args.in = args.out = parameters.data() + at;
      args.state_in = args.state_out = state.data() + at;
      args.count = graph.parameters[i].size();
      updates.push_back(args);
    }
    if (rule.kind == OptimizerKind::lamb)
      set_trust_ratios(graph, rule, updates);
    for (const auto& each : updates)
      update(rule, each);
  }
  Buffer found{layout.total};
  Buffer found_state{slots * layout.total};
  found.fill(0);
  found_state.fill(0);
  device->read(found.data(), found_state.data(), layout.total);
  for (uint32_t i = 0; i < graph.parameters.size(); ++i) {
    const auto at = layout.offsets[i];
    const auto count = graph.parameters[i].size();
    on.check(difference(found.data() + at, parameters.data() + at, count),
             on.max_of_values);
    for (uint32_t slot = 0; slot < state_slots(rule.kind); ++slot)
      on.check(difference(found_state.data() + slot * layout.total + at,
                          state.data() + slot * layout.total + at, count),
               on.max_of_state);
  }
}

/// Every rule that the device knows, clipped and not.
inline void check_resident_rules(const ResidentDevice& on,
                                 const std::vector<OptimizerKind>& kinds) {
  for (auto kind : kinds)
    for (auto clip_norm : {0.0, 0.05})
      BOOST_TEST_CONTEXT(to_string(kind) << ", clipped to " << clip_norm) {
        OptimizerOptions rule;
        rule.kind = kind;
        rule.weight_decay = 0.02f;
        rule.epsilon = 1e-4f; // so that noise of small gradients stays small
        rule.l1 = 1e-3f;
        rule.l2 = 1e-3f;
        check_resident_steps(on, rule, clip_norm, make_graph("mlp:20-16-4"));
      }
}

/// A gradient that is not finite changes nothing.
inline void check_spoiled_gradient(DeviceId on) {
  const auto graph = make_graph("mlp:20-16-4");
  DrawnProblem problem{graph, 4};
  OptimizerOptions rule;
  Buffer state{2 * problem.layout.total};
  state.fill(0);
  const auto device = make_resident_replica(graph, on, rule, 4);
  device->write(problem.parameters.data(), state.data(), problem.layout.total);
  const auto kept = problem.memory.features()[3];
  problem.memory.features()[3] = NAN;
  device->push_gradient(problem.batch);
  BOOST_CHECK(!device->update({}));
  Buffer found{problem.layout.total};
  found.fill(0);
  device->read(found.data(), state.data(), problem.layout.total);
  for (uint32_t i = 0; i < graph.parameters.size(); ++i) {
    const auto at = problem.layout.offsets[i];
    BOOST_CHECK_EQUAL(difference(found.data() + at,
                                 problem.parameters.data() + at,
                                 graph.parameters[i].size()),
                      0);
  }
  problem.memory.features()[3] = kept;
  device->push_gradient(problem.batch);
  BOOST_CHECK(device->update({}));
}

/// Gradients that the host adds, as those of several devices, make the update
/// that sums on the device make; one that is not finite is told from others.
inline void check_sums_of_the_host(DeviceId on) {
  const auto graph = make_graph("mlp:20-16-4");
  DrawnProblem problem{graph, 4};
  const auto total = problem.layout.total;
  OptimizerOptions rule;
  rule.kind = OptimizerKind::adam;
  ResidentReplica::Update how;
  how.samples = 7;
  how.clip_norm = 0.05;
  constexpr size_t page = 1024; // nothing else lies in an array's pages
  Buffer left{total + 2 * page};
  Buffer right{total + 2 * page};
  Buffer found[2][3];
  for (const bool by_host : {false, true}) {
    auto& values = found[by_host];
    for (auto& each : values) {
      each = Buffer{2 * total};
      each.fill(0);
    }
    left.fill(0);
    right.fill(0);
    auto* const a = left.data() + page;
    auto* const b = right.data() + page;
    const auto device = make_resident_replica(graph, on, rule, 4);
    const auto pins = std::pair{device->pin(a), device->pin(b)};
    device->write(problem.parameters.data(), values[1].data(), total);
    for (how.number = 1; how.number <= 2; ++how.number) {
      for (uint32_t rows : {4u, 3u}) {
        auto batch = problem.batch;
        batch.rows = rows;
        batch.key = how.number;
        device->push_gradient(batch);
      }
      if (by_host) {
        BOOST_CHECK(device->pop_gradient(b));
        BOOST_CHECK(device->pop_gradient(a));
        for (size_t i = 0; i < total; ++i)
          a[i] += b[i];
        device->push_sum(a);
      } else
        device->add_gradients();
      BOOST_CHECK(device->update(how));
    }
    device->read(values[0].data(), values[1].data(), total);
    auto spoilt = problem.batch;
    BatchMemory memory{graph, 4};
    std::copy_n(spoilt.features, 4 * graph.features(), memory.features());
    memory.features()[3] = NAN;
    spoilt.features = memory.features();
    device->push_gradient(spoilt);
    BOOST_CHECK(!device->pop_gradient(a));
    device->push_gradient(problem.batch); // the next one is, again
    BOOST_CHECK(device->pop_gradient(a));
    // Nor does a sum overflow unseen.
    std::fill_n(a, total, std::numeric_limits<float>::infinity());
    device->push_sum(a);
    BOOST_CHECK(!device->update(how));
    device->read(values[2].data(), values[1].data(), total);
  }
  for (uint32_t i = 0; i < graph.parameters.size(); ++i) {
    const auto at = problem.layout.offsets[i];
    const auto count = graph.parameters[i].size();
    const auto* first = found[0][0].data() + at;
    BOOST_CHECK(difference(first, problem.parameters.data() + at, count) != 0);
    BOOST_CHECK_EQUAL(difference(found[1][0].data() + at, first, count), 0);
    BOOST_CHECK_EQUAL(difference(found[1][2].data() + at, first, count), 0);
    for (auto slot : {at, total + at})
      BOOST_CHECK_EQUAL(difference(found[1][1].data() + slot,
                                   found[0][1].data() + slot, count),
                        0);
  }
}

/// Rows that no sample has are kept by a lazy update.
inline void check_lazy_tables(DeviceId on) {
  const auto graph = make_graph("logreg", clicks(0, 3, 20));
  DrawnProblem problem{graph, 2};
  for (size_t i = 0; i < 6; ++i)
    problem.memory.ids()[i] = static_cast<int32_t>(i);
  OptimizerOptions rule;
  rule.kind = OptimizerKind::adamw;
  rule.weight_decay = 0.5f;
  const auto table = problem.layout.offsets[0];
  BOOST_REQUIRE(graph.parameters[0].by_rows);
  for (bool lazy : {false, true}) {
    Buffer state{2 * problem.layout.total};
    state.fill(0);
    const auto device = make_resident_replica(graph, on, rule, 2);
    device->write(problem.parameters.data(), state.data(),
                  problem.layout.total);
    device->push_gradient(problem.batch);
    ResidentReplica::Update how;
    how.lazy_tables = lazy;
    BOOST_CHECK(device->update(how));
    Buffer found{problem.layout.total};
    device->read(found.data(), state.data(), problem.layout.total);
    BOOST_CHECK_NE(found.data()[table], problem.parameters.data()[table]);
    BOOST_CHECK_EQUAL(
      found.data()[table + 15] == problem.parameters.data()[table + 15], lazy);
  }
}

} // namespace troupe::test
