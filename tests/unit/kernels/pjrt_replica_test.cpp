#include "kernels/base/error.hpp"
#include "kernels/graph/models.hpp"
#include "kernels/pjrt/replica.hpp"
#include "tests/unit/kernels/drawn_problem.hpp"
#include "tests/unit/kernels/graph_builder.hpp"
#include "tests/unit/kernels/plugin_file.hpp"
#include "tests/unit/kernels/resident_check.hpp"

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <memory>
#include <numeric>

using namespace troupe;
using namespace troupe::test;

BOOST_AUTO_TEST_SUITE(pjrt_replica_test)

namespace {

DeviceId plugin_device(uint32_t index = 0, uint32_t count = 1) {
  return pjrt_device(plugin_file(), index, count);
}

std::string model_of(const std::string& sample, const std::string& operators) {
  return R"({"sample": )" + sample + R"(, "operators": [)" + operators + "]}";
}

/// Loss, hits, gradients and predictions are those of a CPU.
void check_like_a_cpu(const Graph& graph, uint32_t rows, WholeStep step = {}) {
  DrawnProblem problem{graph, rows};
  problem.batch.step = step;
  const auto cpu = make_replica(graph, {}, rows);
  const auto plugin = make_replica(graph, plugin_device(), rows);
  Buffer want{problem.layout.total};
  Buffer found{problem.layout.total};
  want.fill(0);
  found.fill(0);
  std::vector<uint32_t> order;
  std::vector<uint32_t> told;
  const auto of_cpu =
    cpu->gradient(problem.parameters.data(), problem.batch, want.data(),
                  [&](uint32_t parameter) { order.push_back(parameter); });
  const auto of_plugin =
    plugin->gradient(problem.parameters.data(), problem.batch, found.data(),
                     [&](uint32_t parameter) { told.push_back(parameter); });
  BOOST_CHECK_CLOSE(of_plugin.loss_sum, of_cpu.loss_sum, 1e-3);
  BOOST_CHECK_EQUAL(of_plugin.correct, of_cpu.correct);
  std::ranges::sort(order);
  std::ranges::sort(told);
  BOOST_TEST(told == order, boost::test_tools::per_element());
  for (uint32_t i = 0; i < graph.parameters.size(); ++i) {
    const auto at = problem.layout.offsets[i];
    const auto off = difference(found.data() + at, want.data() + at,
                                graph.parameters[i].size());
    BOOST_CHECK_MESSAGE(off < 2e-4, "the gradient of "
                                      << graph.parameters[i].name
                                      << " is off by " << off);
  }
  std::vector<int32_t> classes(rows * graph.labels());
  auto of_plugin_classes = classes;
  std::vector<float> outputs(rows * graph.outputs());
  auto of_plugin_outputs = outputs;
  const auto scores = cpu->evaluate(problem.parameters.data(), problem.batch,
                                    {classes.data(), outputs.data()});
  const auto of_plugin_scores =
    plugin->evaluate(problem.parameters.data(), problem.batch,
                     {of_plugin_classes.data(), of_plugin_outputs.data()});
  BOOST_CHECK_CLOSE(of_plugin_scores.loss_sum, scores.loss_sum, 1e-3);
  BOOST_CHECK_EQUAL(of_plugin_scores.correct, scores.correct);
  BOOST_CHECK_LT(
    difference(of_plugin_outputs.data(), outputs.data(), outputs.size()), 1e-4);
  if (graph.classes() > 0)
    BOOST_TEST(of_plugin_classes == classes, boost::test_tools::per_element());
}

void check_model(const std::string& model, const SampleShape& sample = {},
                 uint32_t rows = 3, WholeStep step = {}) {
  BOOST_TEST_CONTEXT(model)
  check_like_a_cpu(make_graph(model, sample), rows, step);
}

SampleShape text(uint32_t vocabulary) {
  SampleShape sample;
  sample.vocabulary = vocabulary;
  sample.label = LabelKind::tokens;
  return sample;
}

SampleShape images(uint64_t size, uint64_t channels) {
  SampleShape sample;
  sample.features = {size, size, channels};
  sample.classes = 5;
  return sample;
}

} // namespace

BOOST_AUTO_TEST_CASE(mlps_compute_what_a_cpu_does) {
  check_model("mlp:20-16-4");
  SampleShape numbers;
  numbers.features = {7};
  numbers.label = LabelKind::number;
  check_model("mlp:7-5-1", numbers);
}

BOOST_AUTO_TEST_CASE(models_of_images_compute_what_a_cpu_does) {
  check_model("cnn", images(12, 2), 2);
  check_model("resnet8", images(8, 3), 3, {7, 3});
  check_model("resnet8", images(8, 3), 2, {2, 2});
}

BOOST_AUTO_TEST_CASE(models_of_text_compute_what_a_cpu_does) {
  check_model("transformer:L2-H2-D12-T9", text(11));
  check_model("transformer:L1-H1-D8-T5-P0.2", text(7));
  check_model("gpt2:L2-H2-D12-T9", text(11));
  check_model("llama:L2-H4-K2-D24-T9", text(11));
  check_model("llama:L1-H2-D8-T5", text(7));
}

BOOST_AUTO_TEST_CASE(places_in_pairs_compute_what_a_cpu_does) {
  check_model(model_of(R"({"features": [6, 24], "classes": 3})",
                       R"({"kind": "rotary", "heads": 4, "key_value_heads": 1,
                           "interleaved": true, "base": 100},
                          {"kind": "attention", "heads": 4,
                           "key_value_heads": 1},
                          {"kind": "swiglu"}, {"kind": "reshape"},
                          {"kind": "dense", "units": "classes"},
                          {"kind": "softmax_cross_entropy"})"));
}

BOOST_AUTO_TEST_CASE(models_of_clicks_compute_what_a_cpu_does) {
  check_model("dlrm", clicks(5, 4, 40));
  check_model("dlrm", clicks(0, 4, 40));
  check_model("wide_deep", clicks(5, 3, 30));
  check_model("logreg", clicks(6, 6, 20));
  check_model("logreg", clicks(0, 3, 20));
}

BOOST_AUTO_TEST_CASE(windows_of_all_kinds_compute_what_a_cpu_does) {
  const auto sample = R"({"features": [9, 7, 4], "classes": 3})";
  const auto end = R"(, {"kind": "reshape"}, {"kind": "dense",
    "units": "classes"}, {"kind": "softmax_cross_entropy"})";
  for (const auto* kind : {
         R"({"kind": "conv2d", "units": 6, "kernel": 3, "stride": 2,
             "padding": 1, "groups": 2, "activation": "gelu"})",
         R"({"kind": "conv2d", "units": 8, "kernel": 3, "padding": "same",
             "groups": 4, "bias": false})",
         R"({"kind": "conv2d", "units": 5, "kernel": 2, "stride": 3})",
         R"({"kind": "max_pool", "kernel": 3, "stride": 2, "padding": 1})",
         R"({"kind": "max_pool", "kernel": 3, "stride": 1})",
         R"({"kind": "max_pool"})",
         R"({"kind": "average_pool", "kernel": 3, "stride": 2, "padding": 1})",
         R"({"kind": "average_pool", "kernel": 2, "stride": 3})",
         R"({"kind": "average_pool"})",
       }) {
    const auto first = std::string{R"({"kind": "conv2d", "units": 4,
      "kernel": 1}, )"};
    check_model(model_of(sample, first + kind + end));
  }
}

BOOST_AUTO_TEST_CASE(tables_and_pairs_compute_what_a_cpu_does) {
  const auto sample = R"({"ids": 6, "vocabulary": 12, "label": "binary"})";
  const auto end = R"(, {"kind": "dense", "units": 1},
                       {"kind": "sigmoid_cross_entropy"})";
  for (const auto* kinds : {
         R"({"kind": "embedding_bag", "width": 5, "mode": "mean"})",
         R"({"kind": "embedding", "width": 5}, {"kind": "factorization"})",
         R"({"kind": "embedding", "width": 5}, {"kind": "interaction"})",
         R"({"kind": "embedding", "width": 5}, {"kind": "transpose",
             "permutation": [1, 0]}, {"kind": "slice", "axis": 1, "begin": 1,
             "end": 4}, {"kind": "reshape"})",
       })
    check_model(model_of(sample, std::string{kinds} + end));
}

BOOST_AUTO_TEST_CASE(random_graphs_compute_what_a_cpu_does) {
  for (uint32_t seed = 1; seed <= 60; ++seed)
    BOOST_TEST_CONTEXT("seed " << seed)
  check_like_a_cpu(random_graph(seed), 1 + seed % 4);
}

BOOST_AUTO_TEST_CASE(several_sizes_of_a_batch_and_changed_parameters_follow) {
  const auto graph = make_graph("mlp:20-16-4");
  const auto cpu = make_replica(graph, {}, 8);
  const auto plugin = make_replica(graph, plugin_device(1), 8);
  for (uint32_t rows : {8u, 3u, 8u, 1u}) {
    DrawnProblem problem{graph, rows};
    problem.parameters.data()[0] += static_cast<float>(rows);
    const auto want = cpu->evaluate(problem.parameters.data(), problem.batch);
    const auto found = plugin->evaluate(problem.parameters.data(),
                                        problem.batch);
    BOOST_CHECK_CLOSE(found.loss_sum, want.loss_sum, 1e-3);
  }
}

BOOST_AUTO_TEST_CASE(predictions_need_no_labels) {
  const auto graph = make_graph("mlp:20-16-4");
  DrawnProblem problem{graph, 3};
  auto batch = problem.batch;
  batch.labels = nullptr;
  std::vector<int32_t> want(3);
  auto found = want;
  make_replica(graph, {}, 3)
    ->evaluate(problem.parameters.data(), batch, {want.data()});
  make_replica(graph, plugin_device(), 3)
    ->evaluate(problem.parameters.data(), batch, {found.data()});
  BOOST_TEST(found == want, boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(an_id_outside_a_table_is_named) {
  const auto graph = make_graph("logreg", clicks(0, 3, 20));
  DrawnProblem problem{graph, 2};
  problem.memory.ids()[4] = 20;
  Buffer gradient{problem.layout.total};
  BOOST_CHECK_EXCEPTION(
    make_replica(graph, plugin_device(), 2)
      ->gradient(problem.parameters.data(), problem.batch, gradient.data()),
    InputError, [](const InputError& mistake) {
      return std::string{mistake.what()}.find("id 20 is outside")
             != std::string::npos;
    });
}

// -- parameters that stay on the device ---------------------------------------

namespace {

ResidentDevice resident_plugin() {
  return {plugin_device(), {}, 5e-4, 1e-3, 1e-2};
}

} // namespace

BOOST_AUTO_TEST_CASE(every_optimizer_updates_on_the_device_as_on_the_host) {
  using enum OptimizerKind;
  check_resident_rules(resident_plugin(), {sgd, momentum, nesterov, adam, adamw,
                                           adagrad, rmsprop, ftrl, lamb});
}

BOOST_AUTO_TEST_CASE(running_statistics_are_updated_on_the_device) {
  OptimizerOptions rule;
  rule.kind = OptimizerKind::momentum;
  check_resident_steps(resident_plugin(), rule, 0,
                       make_graph("resnet8", images(8, 3)));
}

BOOST_AUTO_TEST_CASE(a_gradient_that_is_not_finite_changes_nothing) {
  check_spoiled_gradient(plugin_device());
}

BOOST_AUTO_TEST_CASE(sums_may_pass_through_the_host) {
  check_sums_of_the_host(plugin_device());
}

BOOST_AUTO_TEST_CASE(lazy_tables_keep_rows_that_no_sample_has) {
  check_lazy_tables(plugin_device());
}

BOOST_AUTO_TEST_CASE(ratios_of_layers_in_slices_are_left_to_the_host) {
  OptimizerOptions rule;
  rule.kind = OptimizerKind::lamb;
  const auto whole = make_graph("mlp:20-16-4");
  const auto cut = cut_into_slices(whole, 2);
  BOOST_CHECK(make_resident_replica(whole, plugin_device(), rule, 4));
  BOOST_CHECK(!make_resident_replica(cut, plugin_device(), rule, 4));
  rule.kind = OptimizerKind::adamw;
  BOOST_CHECK(make_resident_replica(cut, plugin_device(), rule, 4));
}

// -- several devices ----------------------------------------------------------

namespace {

/// What a micro-batch's place is, how many rows it has, and how many sums of
/// two follow it there.
struct PlacedBatch {
  uint32_t place;
  uint32_t rows;
  uint32_t merges = 0;
};

/// A step on several devices, and the same sums on one.
class SideBySide {
public:
  explicit SideBySide(const std::string& model, const SampleShape& sample = {})
    : graph_(make_graph(model, sample)),
      problem_(graph_, 8),
      one_(make_resident_replica(graph_, plugin_device(), rule_, 4)),
      two_(make_resident_replica(graph_, plugin_device(0, 2), rule_, 4)),
      state_(3 * problem_.layout.total) {
    state_.fill(0);
    BOOST_REQUIRE_EQUAL(two_->places(), 2u);
    for (auto* device : {one_.get(), two_.get()})
      device->write(problem_.parameters.data(), state_.data(),
                    problem_.layout.total);
  }

  /// On one device batches go place by place; `after` says how many sums of
  /// two follow each of them there.
  void step(const std::vector<PlacedBatch>& batches,
            const std::vector<uint32_t>& after, const SumProgram& order,
            bool any_order = false) {
    ++how_.number;
    how_.samples = 0;
    std::vector<size_t> by_place(batches.size());
    std::iota(by_place.begin(), by_place.end(), 0);
    std::ranges::stable_sort(by_place, {},
                             [&](size_t i) { return batches[i].place; });
    for (size_t i = 0; i < batches.size(); ++i) {
      how_.samples += static_cast<float>(batches[i].rows);
      two_->push_gradient(batch(batches, i), batches[i].place);
      for (uint32_t merge = 0; merge < batches[i].merges; ++merge)
        two_->add_gradients(batches[i].place);
    }
    std::vector<double> losses;
    for (size_t i = 0; i < batches.size(); ++i)
      losses.push_back(two_->next_stats().loss_sum);
    for (size_t k = 0; k < batches.size(); ++k) {
      one_->push_gradient(batch(batches, by_place[k]));
      for (uint32_t merge = 0; merge < after[k]; ++merge)
        one_->add_gradients();
      BOOST_CHECK_EQUAL(one_->next_stats().loss_sum, losses[by_place[k]]);
    }
    two_->sum_places(order, any_order);
    BOOST_CHECK(one_->update(how_));
    BOOST_CHECK(two_->update(how_));
    check_equal();
  }

private:
  Batch batch(const std::vector<PlacedBatch>& batches, size_t i) const {
    auto batch = problem_.batch;
    batch.rows = batches[i].rows;
    batch.features += i * graph_.features(); // others for each
    batch.labels += i * graph_.labels();
    batch.key = 10 * how_.number + i;
    return batch;
  }

  void check_equal() {
    const auto total = problem_.layout.total;
    Buffer found[2] = {Buffer{4 * total}, Buffer{4 * total}};
    for (size_t i = 0; i < 2; ++i) {
      found[i].fill(0);
      (i == 0 ? one_ : two_)
        ->read(found[i].data(), found[i].data() + total, total);
    }
    for (uint32_t i = 0; i < graph_.parameters.size(); ++i)
      for (uint32_t slot = 0; slot < 3; ++slot) {
        const auto at = slot * total + problem_.layout.offsets[i];
        BOOST_CHECK_EQUAL(difference(found[0].data() + at, found[1].data() + at,
                                     graph_.parameters[i].size()),
                          0);
      }
  }

  Graph graph_;
  DrawnProblem problem_;
  OptimizerOptions rule_; // adam
  std::unique_ptr<ResidentReplica> one_;
  std::unique_ptr<ResidentReplica> two_;
  Buffer state_;
  ResidentReplica::Update how_{0, 0.05f, 1, 0.05, false};
};

} // namespace

BOOST_AUTO_TEST_CASE(several_devices_update_as_one_does) {
  SideBySide both{"mlp:20-16-4"};
  // Alike in both places: replicas of one program each time.
  both.step({{0, 4}, {1, 4}, {0, 4, 1}, {1, 4, 1}}, {0, 1, 0, 2},
            {{0, 0, 0}, {1, 0, 1}});
}

BOOST_AUTO_TEST_CASE(devices_may_have_unlike_shares_of_a_step) {
  SideBySide both{"mlp:20-16-4"};
  both.step({{0, 4}, {1, 3}, {1, 4, 1}}, {0, 0, 2}, {{0, 0, 0}, {1, 0, 1}});
  both.step({{1, 2}}, {0}, {{1, 0, 0}});
  both.step({{0, 4}, {0, 4}, {1, 4}}, {0, 1, 1},
            {{0, 0, 0}, {0, 1, 1}, {1, 0, 1}});
}

BOOST_AUTO_TEST_CASE(devices_may_sum_in_any_order) {
  SideBySide both{"mlp:20-16-4"};
  both.step({{0, 4}, {1, 3}}, {0, 1}, {}, true);
  both.step({{1, 3}}, {0}, {}, true);
}

BOOST_AUTO_TEST_CASE(models_of_images_are_trained_on_several_devices) {
  SideBySide both{"resnet8", images(8, 3)};
  both.step({{0, 4}, {1, 4}}, {0, 1}, {{0, 0, 0}, {1, 0, 1}});
}

BOOST_AUTO_TEST_CASE(a_sum_of_several_devices_may_pass_through_the_host) {
  const auto graph = make_graph("mlp:20-16-4");
  DrawnProblem problem{graph, 4};
  const auto total = problem.layout.total;
  Buffer sum{total};
  Buffer state{2 * total};
  Buffer found[2] = {Buffer{total}, Buffer{total}};
  for (const bool by_host : {false, true}) {
    state.fill(0);
    sum.fill(0);
    found[by_host].fill(0);
    const auto both = make_resident_replica(graph, plugin_device(0, 2), {}, 4);
    both->write(problem.parameters.data(), state.data(), total);
    both->push_gradient(problem.batch, 0);
    both->push_gradient(problem.batch, 1);
    both->sum_places({{0, 0, 0}, {1, 0, 1}}, false);
    if (by_host) {
      BOOST_CHECK(both->pop_gradient(sum.data()));
      both->push_sum(sum.data());
    }
    BOOST_CHECK(both->update({}));
    both->read(found[by_host].data(), state.data(), total);
  }
  for (uint32_t i = 0; i < graph.parameters.size(); ++i)
    BOOST_CHECK_EQUAL(difference(found[0].data() + problem.layout.offsets[i],
                                 found[1].data() + problem.layout.offsets[i],
                                 graph.parameters[i].size()),
                      0);
}

BOOST_AUTO_TEST_SUITE_END()
