#include "kernels/data/dataset.hpp"
#include "kernels/graph/models.hpp"
#include "tests/unit/kernels/drawn_problem.hpp"
#include "tests/unit/kernels/float64_graph.hpp"
#include "tests/unit/kernels/operator_check.hpp"

#include <boost/test/unit_test.hpp>

#include <random>

using namespace troupe;
using namespace troupe::test;

BOOST_AUTO_TEST_SUITE(whole_models_test)

namespace {

SampleShape text(uint32_t vocabulary) {
  SampleShape sample;
  sample.vocabulary = vocabulary;
  sample.label = LabelKind::tokens;
  return sample;
}

/// A model's parameters and a batch, drawn.
struct Drawn {
  Drawn(const Graph& graph, uint32_t rows)
    : layout(graph), memory(graph, rows), parameters(layout.total) {
    std::mt19937 random(2);
    std::uniform_real_distribution<float> unit(-1, 1);
    parameters.fill(0);
    for (uint32_t i = 0; i < graph.parameters.size(); ++i) {
      auto* at = parameters.data() + layout.offsets[i];
      initialize(graph, 0, i, 0, at, graph.parameters[i].size());
      for (size_t k = 0; k < graph.parameters[i].size(); ++k)
        at[k] += 0.1f * unit(random);
    }
    inputs.rows = rows;
    inputs.key = 5;
    for (size_t i = 0; i < rows * graph.features(); ++i)
      inputs.features.push_back(memory.features()[i] = unit(random));
    // Now and then an id is absent, of tables of clicks alone.
    const bool absent = graph.sample.label != LabelKind::tokens;
    for (size_t i = 0; i < rows * graph.ids(); ++i)
      inputs.ids.push_back(
        memory.ids()[i] =
          absent && i % 5 == 0
            ? -1
            : static_cast<int32_t>(random() % graph.sample.vocabulary));
    for (size_t i = 0; i < rows * graph.labels(); ++i)
      inputs.labels.push_back(
        memory.labels()[i] = static_cast<int32_t>(random() % graph.classes()));
  }

  Layout layout;
  BatchMemory memory;
  Buffer parameters;
  GraphInputs inputs;
};

/// Compares loss and gradients with the float64 reference, the gradients by
/// central differences at up to six elements of each parameter.
void check_model(const std::string& model, const SampleShape& sample) {
  constexpr uint32_t rows = 3;
  const auto graph = make_graph(model, sample);
  Drawn drawn(graph, rows);
  std::vector<double> at(drawn.parameters.data(),
                         drawn.parameters.data() + drawn.layout.total);
  for (auto device : devices_present())
    BOOST_TEST_CONTEXT(to_string(device) << ", " << model) {
      Buffer gradient(drawn.layout.total);
      auto replica = make_replica(graph, device, rows);
      const auto stats = replica->gradient(
        drawn.parameters.data(), drawn.memory.batch(rows, 5), gradient.data());
      BOOST_TEST(within(float32_sum, stats.loss_sum,
                        float64_loss(graph, at, drawn.inputs)));
      std::mt19937 random(9);
      for (uint32_t i = 0; i < graph.parameters.size(); ++i)
        for (size_t n = 0; n < 6; ++n) {
          const auto k = drawn.layout.offsets[i]
                         + random() % graph.parameters[i].size();
          const auto kept = at[k];
          at[k] = kept + 1e-5;
          const auto above = float64_loss(graph, at, drawn.inputs);
          at[k] = kept - 1e-5;
          const auto below = float64_loss(graph, at, drawn.inputs);
          at[k] = kept;
          const auto want = (above - below) / 2e-5;
          BOOST_CHECK_MESSAGE(within({5e-5, 2e-4}, gradient.data()[k], want),
                              "gradient of " << graph.parameters[i].name
                                             << " is " << gradient.data()[k]
                                             << " rather than " << want);
        }
    }
}

} // namespace

BOOST_AUTO_TEST_CASE(transformers_follow_their_float64_reference) {
  check_model("transformer:L2-H2-D12-T9", text(11));
  check_model("transformer:L1-H2-D32-T72", text(65));
  check_model("transformer:L2-H1-D16-T8-P0.1", text(7));
  check_model("gpt2:L1-H2-D12-T9", text(11));
  check_model("llama:L2-H4-K2-D16-T9-P0.1", text(11));
  check_model("llama:L1-H3-K1-D48-T70", text(30));
}

BOOST_AUTO_TEST_CASE(models_of_clicks_follow_their_float64_references) {
  check_model("dlrm", clicks(5, 4, 40));
  check_model("wide_deep", clicks(5, 3, 30));
  check_model("logreg", clicks(6, 6, 20));
}

BOOST_AUTO_TEST_SUITE_END()
