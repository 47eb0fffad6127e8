#include "kernels/base/buffer.hpp"
#include "kernels/base/error.hpp"
#include "kernels/devices/sleeping_replica.hpp"
#include "kernels/engine/stage_replica.hpp"
#include "kernels/graph/models.hpp"

#include <boost/test/unit_test.hpp>

#include <chrono>
#include <vector>

using namespace troupe;

BOOST_AUTO_TEST_SUITE(sleeping_replica_suite)

namespace {

SampleShape shape_of(LabelKind label) {
  SampleShape sample;
  sample.label = label;
  if (label == LabelKind::tokens) {
    sample.vocabulary = 65;
  } else {
    sample.features = {3};
    sample.classes = label == LabelKind::classes ? 7 : 0;
  }
  return sample;
}

} // namespace

BOOST_AUTO_TEST_CASE(sleep_fits_samples_of_every_kind_of_label) {
  for (auto label : {LabelKind::classes, LabelKind::binary, LabelKind::number,
                     LabelKind::tokens}) {
    const auto graph = make_graph("sleep:0ms", shape_of(label));
    BOOST_TEST(graph.parameter_count() == 1u);
    BOOST_TEST(graph.labels() == (label == LabelKind::tokens ? 64u : 1u));
    BOOST_TEST(graph.features() == 0u);
    BOOST_TEST(graph.flops_per_sample() == 0u);
  }
  BOOST_TEST(make_graph("sleep:0ms").classes() == 10u);
  BOOST_TEST(make_graph("sleep:20ms-1000").parameter_count() == 1'000u);
}

BOOST_AUTO_TEST_CASE(its_gradient_is_the_parameters_times_the_rows) {
  const auto graph = make_graph("sleep:0ms-20");
  auto replica = make_replica(graph, {}, 8);
  Buffer parameters{Layout{graph}.total};
  Buffer gradient{Layout{graph}.total};
  parameters.fill(0.5f);
  gradient.fill(-1);
  Batch batch;
  batch.rows = 3;
  uint32_t readied = 0;
  const auto stats = replica->gradient(
    parameters.data(), batch, gradient.data(), [&](uint32_t) { ++readied; });
  BOOST_TEST(readied == 1u);
  BOOST_TEST(stats.loss_sum == 3 * 20 * 0.125);
  for (size_t i = 0; i < 20; ++i)
    BOOST_TEST(gradient.data()[i] == 1.5f);
  BOOST_TEST(gradient.data()[20] == -1.0f); // a gap belongs to nobody
}

BOOST_AUTO_TEST_CASE(one_that_counts_asks_for_one_more_by_each_sample) {
  const auto graph = make_graph("count:0ms-20");
  auto replica = make_replica(graph, {}, 8);
  Buffer values{Layout{graph}.total};
  initialize(graph, 1, 0, 0, values.data(), 20);
  for (size_t i = 0; i < 20; ++i)
    BOOST_TEST(values.data()[i] == 0.0f);
  Batch batch;
  batch.rows = 3;
  const auto stats = replica->gradient(values.data(), batch, values.data());
  BOOST_TEST(stats.loss_sum == 0);
  for (size_t i = 0; i < 20; ++i)
    BOOST_TEST(values.data()[i] == -3.0f);
}

BOOST_AUTO_TEST_CASE(dense_parameters_count_beside_a_table) {
  SampleShape sample;
  sample.ids = 2;
  sample.vocabulary = 9;
  sample.label = LabelKind::binary;
  const auto graph = make_graph("count:0ms-4-3", sample);
  BOOST_TEST(graph.parameter_count() == 9 * 4 + 3u);
  const Layout layout{graph};
  auto replica = make_replica(graph, {}, 2);
  Buffer values{layout.total};
  values.fill(0);
  Buffer gradient{layout.total};
  int32_t ids[] = {2, 5, 5, -1};
  Batch batch;
  batch.rows = 2;
  batch.ids = ids;
  replica->gradient(values.data(), batch, gradient.data());
  for (uint64_t i = 0; i < 36; ++i)
    BOOST_TEST(gradient.data()[i] == (i / 4 == 2 || i / 4 == 5 ? -2.0f : 0.0f));
  for (uint64_t i = 0; i < 3; ++i)
    BOOST_TEST(gradient.data()[layout.offsets[1] + i] == -2.0f);
  BOOST_CHECK_THROW(make_graph("count:0ms-4-3", shape_of(LabelKind::classes)),
                    UsageError);
}

BOOST_AUTO_TEST_CASE(a_gradient_takes_its_time) {
  const auto graph = make_graph("sleep:5ms");
  auto replica = make_replica(graph, {}, 1);
  Buffer values{Layout{graph}.total};
  values.fill(1);
  Batch batch;
  batch.rows = 1;
  const auto begin = std::chrono::steady_clock::now();
  replica->gradient(values.data(), batch, values.data());
  BOOST_CHECK(std::chrono::steady_clock::now() - begin
              >= std::chrono::milliseconds{5});
}

BOOST_AUTO_TEST_CASE(layers_on_stages_give_what_all_give_at_once) {
  const auto graph = make_graph("sleep:0ms+0ms+0ms-20");
  BOOST_TEST(graph.parameter_count() == 60u);
  const Layout layout{graph};
  Buffer parameters{layout.total};
  parameters.fill(0.5f);
  Buffer gradient{layout.total};
  Batch batch;
  batch.rows = 3;
  const auto whole = make_replica(graph, {}, 3)
                       ->gradient(parameters.data(), batch, gradient.data());
  BOOST_TEST(whole.loss_sum == 3 * 60 * 0.125);
  BOOST_TEST(gradient.data()[layout.offsets[2] + 19] == 1.5f);
  auto first = make_stage_replica(graph, part_of(graph, {0, 2}), {}, {});
  auto last = make_stage_replica(graph, part_of(graph, {2, 4}), {},
                                 {.in_halves = true});
  std::vector<float> crossing(3, -1.0f);
  BOOST_TEST(
    first->forward(0, parameters.data(), batch, nullptr, crossing.data())
      .loss_sum
    == 0);
  const auto stats = last->forward(0, parameters.data(), batch, crossing.data(),
                                   nullptr);
  BOOST_TEST(stats.loss_sum == whole.loss_sum);
  Buffer of_last{last->layout().total};
  last->backward_inputs(0, nullptr, crossing.data());
  last->backward_weights(0, of_last.data());
  BOOST_TEST(of_last.data()[19] == 1.5f);
  Buffer of_first{first->layout().total};
  first->backward(0, crossing.data(), of_first.data(), nullptr);
  BOOST_TEST(of_first.data()[first->layout().offsets[1]] == 1.5f);
}

BOOST_AUTO_TEST_CASE(a_stage_waits_once_forward_and_twice_backward) {
  const auto graph = make_graph("sleep:0ms+5ms");
  auto stage = make_stage_replica(graph, part_of(graph, {1, 3}), {}, {});
  Buffer values{stage->layout().total};
  values.fill(1);
  Batch batch;
  batch.rows = 1;
  const float in = 0;
  float back = 0;
  const auto begin = std::chrono::steady_clock::now();
  stage->forward(0, values.data(), batch, &in, nullptr);
  const auto middle = std::chrono::steady_clock::now();
  BOOST_TEST((middle - begin >= std::chrono::milliseconds{5}));
  stage->backward(0, nullptr, values.data(), &back);
  const auto end = std::chrono::steady_clock::now();
  BOOST_TEST((end - middle >= std::chrono::milliseconds{10}));
  // Where activations are computed again, another time.
  stage = make_stage_replica(graph, part_of(graph, {1, 3}), {},
                             {.recompute = true});
  stage->forward(0, values.data(), batch, &in, nullptr);
  const auto again = std::chrono::steady_clock::now();
  stage->backward(0, nullptr, values.data(), &back);
  BOOST_TEST((std::chrono::steady_clock::now() - again
              >= std::chrono::milliseconds{15}));
}

BOOST_AUTO_TEST_SUITE_END()
