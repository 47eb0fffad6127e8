#include "kernels/base/buffer.hpp"
#include "kernels/engine/replica.hpp"
#include "kernels/graph/models.hpp"

#include <boost/test/unit_test.hpp>

#include <cmath>
#include <random>

using namespace troupe;

BOOST_AUTO_TEST_SUITE(image_models_test)

namespace {

constexpr uint32_t rows = 24;

/// Images whose class is which third is bright, with noise.
struct Images {
  std::vector<float> features;
  std::vector<int32_t> labels;

  explicit Images(const Graph& graph) {
    std::mt19937 random(3);
    std::uniform_real_distribution<float> noise(0, 0.5);
    const auto size = graph.features();
    for (uint32_t row = 0; row < rows; ++row) {
      labels.push_back(static_cast<int32_t>(row % 3));
      for (uint64_t i = 0; i < size; ++i)
        features.push_back(noise(random) + (i * 3 / size == row % 3 ? 1 : 0));
    }
  }
};

/// A step of plain gradient descent; statistics move by their momentum.
void descend(const Graph& graph, const Buffer& gradient, Buffer& values) {
  const Layout layout(graph);
  for (size_t p = 0; p < graph.parameters.size(); ++p) {
    const auto& parameter = graph.parameters[p];
    for (uint64_t i = 0; i < parameter.size(); ++i) {
      auto& value = values.data()[layout.offsets[p] + i];
      const auto mean = gradient.data()[layout.offsets[p] + i] / rows;
      if (parameter.role == ParameterRole::statistic)
        value += parameter.momentum * (mean - value);
      else
        value -= 0.05f * mean;
    }
  }
}

/// Losses of each step, and last that of an evaluation, per row.
std::vector<double> losses_of(const char* model, int steps) {
  SampleShape sample;
  sample.features = {12, 12, 3};
  sample.classes = 3;
  const auto graph = make_graph(model, sample);
  const Layout layout(graph);
  Buffer values(layout.total);
  Buffer gradient(layout.total);
  values.fill(0);
  gradient.fill(0);
  for (uint32_t p = 0; p < graph.parameters.size(); ++p)
    initialize(graph, 1, p, 0, values.data() + layout.offsets[p],
               graph.parameters[p].size());
  const Images images(graph);
  Batch batch;
  batch.rows = rows;
  batch.features = images.features.data();
  batch.labels = images.labels.data();
  auto replica = make_replica(graph, {}, rows);
  std::vector<double> losses;
  for (int step = 0; step < steps; ++step) {
    auto stats = replica->gradient(values.data(), batch, gradient.data());
    losses.push_back(stats.loss_sum / rows);
    descend(graph, gradient, values);
  }
  losses.push_back(replica->evaluate(values.data(), batch).loss_sum / rows);
  return losses;
}

} // namespace

BOOST_AUTO_TEST_CASE(models_for_images_learn_and_evaluate_what_they_learnt) {
  for (const auto* model : {"cnn", "resnet8", "resnet20"}) {
    const auto losses = losses_of(model, 20);
    for (auto loss : losses)
      BOOST_REQUIRE_MESSAGE(std::isfinite(loss), model << ": " << loss);
    BOOST_TEST_MESSAGE(model << ": " << losses.front() << " to " << losses[19]
                             << ", evaluated " << losses[20]);
    BOOST_TEST(losses[19] < 0.6 * losses.front(), model);
    // With running statistics rather than the batch's.
    BOOST_TEST(losses[20] < losses.front(), model);
  }
}

BOOST_AUTO_TEST_SUITE_END()
