#include "kernels/cpu/matrix.hpp"
#include "kernels/data/dataset.hpp"
#include "kernels/engine/replica.hpp"
#include "kernels/graph/models.hpp"
#include "kernels/graph/virtual_slices.hpp"

#include <boost/test/unit_test.hpp>

#include <cmath>
#include <random>

using namespace troupe;

BOOST_AUTO_TEST_SUITE(virtual_slices_test)

namespace {

SampleShape sliced_text() {
  SampleShape sample;
  sample.vocabulary = 19;
  sample.label = LabelKind::tokens;
  return sample;
}

SampleShape sliced_clicks() {
  SampleShape sample;
  sample.features = {5};
  sample.ids = 4;
  sample.vocabulary = 23;
  sample.label = LabelKind::binary;
  return sample;
}

struct SlicedModel {
  const char* text;
  SampleShape sample;
  size_t pairs;
};

std::vector<SlicedModel> sliced_models() {
  return {{"mlp:20-24-17-16-5", {}, 2},
          {"mlp:20-24-17-16", {}, 1},
          {"transformer:L2-H8-D16-T8", sliced_text(), 4},
          {"gpt2:L2-H8-D16-T8", sliced_text(), 4},
          {"llama:L2-H16-K8-D32-T8", sliced_text(), 4},
          {"dlrm", sliced_clicks(), 2}};
}

std::vector<float> drawn_parameters(const Graph& graph) {
  const Layout layout{graph};
  std::vector<float> values(layout.total, 0.0f);
  for (uint32_t i = 0; i < graph.parameters.size(); ++i)
    initialize(graph, 3, i, 0, values.data() + layout.offsets[i],
               graph.parameters[i].size());
  return values;
}

/// The values of whole parameters, by the layout of the graph before the cut.
std::vector<float> joined(const Graph& cut, const Layout& whole,
                          const std::vector<float>& values) {
  const Layout layout{cut};
  std::vector<float> result(whole.total, 0.0f);
  for (uint32_t i = 0; i < cut.parameters.size(); ++i)
    put_piece(cut, i, 0,
              {values.data() + layout.offsets[i], cut.parameters[i].size()},
              result.data() + whole.offsets[whole_of(cut, i)]);
  return result;
}

struct SlicedPass {
  std::vector<float> gradient;
  LeafStats stats;
};

SlicedPass pass_of(const Graph& graph, const std::vector<float>& parameters,
                   uint32_t rows) {
  BatchMemory memory{graph, rows};
  std::mt19937 random(5);
  std::uniform_real_distribution<float> unit(-1, 1);
  for (size_t i = 0; i < rows * graph.features(); ++i)
    memory.features()[i] = unit(random);
  for (size_t i = 0; i < rows * graph.ids(); ++i)
    memory.ids()[i] = static_cast<int32_t>(random() % graph.sample.vocabulary);
  for (size_t i = 0; i < rows * graph.labels(); ++i)
    memory.labels()[i] = static_cast<int32_t>(random() % graph.classes());
  SlicedPass pass;
  pass.gradient.assign(Layout{graph}.total, 0.0f);
  pass.stats = make_replica(graph, {}, rows)
                 ->gradient(parameters.data(), memory.batch(rows, 7),
                            pass.gradient.data());
  return pass;
}

} // namespace

BOOST_AUTO_TEST_CASE(one_slice_leaves_a_graph_as_it_is) {
  const auto graph = make_graph("mlp:20-24-17-16-5");
  const auto cut = cut_into_slices(graph, 1);
  BOOST_TEST(cut.ops.size() == graph.ops.size());
  BOOST_TEST(cut.wholes.empty());
  BOOST_TEST(&whole_parameters(cut) == &cut.parameters);
}

BOOST_AUTO_TEST_CASE(pieces_have_each_element_of_the_whole_once) {
  for (const auto& model : sliced_models()) {
    const auto graph = make_graph(model.text, model.sample);
    for (uint32_t slices : {2, 3, 4, 7}) {
      const auto cut = cut_into_slices(graph, slices);
      BOOST_REQUIRE(whole_parameters(cut).size() == graph.parameters.size());
      size_t weights = 0;
      for (uint32_t i = 0; i < graph.parameters.size(); ++i) {
        std::vector<int> seen(graph.parameters[i].size(), 0);
        const auto pieces = pieces_of(cut, i);
        weights += pieces.size() > 1 && graph.parameters[i].shape.size() == 2;
        for (auto piece : pieces)
          for_runs(cut, piece, 0, cut.parameters[piece].size(),
                   [&](uint64_t, uint64_t in_whole, uint64_t elements) {
                     for (uint64_t k = 0; k < elements; ++k)
                       ++seen.at(in_whole + k);
                   });
        BOOST_TEST(seen == std::vector<int>(seen.size(), 1),
                   boost::test_tools::per_element());
      }
      BOOST_TEST(weights == 2 * model.pairs, model.text << ' ' << slices);
    }
  }
}

BOOST_AUTO_TEST_CASE(pieces_begin_as_the_whole_does_from_any_element_on) {
  const auto graph = make_graph("transformer:L1-H4-D16-T8", sliced_text());
  const auto cut = cut_into_slices(graph, 4);
  const Layout layout{graph};
  const auto whole = drawn_parameters(graph);
  BOOST_TEST(joined(cut, layout, drawn_parameters(cut)) == whole,
             boost::test_tools::per_element());
  for (uint32_t i = 0; i < cut.parameters.size(); ++i) {
    const auto size = cut.parameters[i].size();
    for (uint64_t offset : {uint64_t{0}, size / 3, size - 1}) {
      std::vector<float> values(size - offset);
      std::vector<float> expected(values);
      initialize(cut, 3, i, offset, values.data(), values.size());
      take_piece(cut, i, offset,
                 whole.data() + layout.offsets[whole_of(cut, i)], expected);
      BOOST_TEST(values == expected, boost::test_tools::per_element());
    }
  }
}

BOOST_AUTO_TEST_CASE(a_graph_in_slices_computes_the_same_gradients) {
  for (const auto& model : sliced_models()) {
    const auto graph = make_graph(model.text, model.sample);
    const Layout layout{graph};
    const auto whole = pass_of(graph, drawn_parameters(graph), 6);
    for (uint32_t slices : {2, 3, 4, 8}) {
      const auto cut = cut_into_slices(graph, slices);
      const auto pass = pass_of(cut, drawn_parameters(cut), 6);
      BOOST_TEST(std::abs(pass.stats.loss_sum - whole.stats.loss_sum)
                 <= 1e-5 * std::abs(whole.stats.loss_sum));
      const auto gradient = joined(cut, layout, pass.gradient);
      double most = 0;
      double difference = 0;
      for (size_t i = 0; i < gradient.size(); ++i) {
        most = std::max<double>(most, std::abs(whole.gradient[i]));
        difference = std::max<double>(
          difference, std::abs(gradient[i] - whole.gradient[i]));
      }
      BOOST_TEST(most > 0);
      BOOST_TEST(difference <= 1e-5 * most, model.text << ' ' << slices);
    }
  }
}

BOOST_AUTO_TEST_CASE(products_of_slices_are_added_along_the_tree) {
  using kernels::Side;
  SampleShape numbers;
  numbers.features = {6};
  numbers.label = LabelKind::number;
  const auto graph = make_graph("mlp:6-10-1", numbers);
  constexpr uint32_t rows = 9;
  std::mt19937 random(5);
  std::uniform_real_distribution<float> unit(-1, 1);
  for (uint32_t slices : {2, 3, 4, 5}) {
    const auto cut = cut_into_slices(graph, slices);
    const Layout layout{cut};
    const auto parameters = drawn_parameters(cut);
    BatchMemory memory{cut, rows};
    for (size_t i = 0; i < rows * 6; ++i)
      memory.features()[i] = unit(random);
    for (size_t i = 0; i < rows; ++i)
      memory.targets()[i] = 0;
    std::vector<float> found(rows);
    Predictions predictions;
    predictions.outputs = found.data();
    make_replica(cut, {}, rows)
      ->evaluate(parameters.data(), memory.batch(rows, 7), predictions);
    std::vector<std::vector<float>> parts;
    const auto at = [&](uint32_t whole, uint32_t slice) {
      return parameters.data() + layout.offsets[pieces_of(cut, whole)[slice]];
    };
    for (uint32_t slice = 0; slice < slices; ++slice) {
      const auto width = 10 * (slice + 1) / slices - 10 * slice / slices;
      std::vector<float> hidden(rows * width);
      kernels::multiply(Side::as_is, Side::as_is, rows, width, 6,
                        memory.features(), at(0, slice), hidden.data());
      for (size_t i = 0; i < hidden.size(); ++i)
        hidden[i] = std::max(hidden[i] + at(1, slice)[i % width], 0.0f);
      auto& part = parts.emplace_back(rows);
      kernels::multiply(Side::as_is, Side::as_is, rows, 1, width, hidden.data(),
                        at(2, slice), part.data());
    }
    const std::function<float(SliceNode, uint32_t)> sum = [&](SliceNode node,
                                                              uint32_t row) {
      if (node.hi - node.lo == 1)
        return parts[node.lo][row] + (node.lo == 0 ? at(3, 0)[0] : 0.0f);
      const auto [left, right] = children(node);
      return sum(left, row) + sum(right, row);
    };
    for (uint32_t row = 0; row < rows; ++row)
      BOOST_TEST(found[row] == sum({0, slices}, row));
  }
}

BOOST_AUTO_TEST_CASE(the_gradient_of_the_input_has_an_alias_at_each_node) {
  const auto cut =
    cut_into_slices(make_graph("transformer:L1-H8-D16-T8", sliced_text()), 6);
  BOOST_TEST(cut.virtual_slices == 6u);
  size_t inner = 0;
  for (const auto& op : cut.ops)
    if (op.kind == OpKind::reshape) {
      std::vector<SliceNode> readers;
      for (const auto& other : cut.ops)
        for (auto input : other.inputs)
          if (input == op.output)
            readers.push_back(other.slices.value());
      const auto node = op.slices.value();
      if (node.hi - node.lo == 1) {
        BOOST_TEST(readers.size() == 1u);
        BOOST_TEST((readers.front() == node));
      } else {
        const auto [left, right] = children(node);
        BOOST_TEST((readers == std::vector{left, right}));
        ++inner;
      }
    }
  BOOST_TEST(inner == 2u * 5u);
}

BOOST_AUTO_TEST_CASE(what_cannot_be_cut_stays_whole) {
  // As few heads as slices, and the other pair has units enough.
  auto cut =
    cut_into_slices(make_graph("transformer:L1-H2-D16-T8", sliced_text()), 4);
  size_t pieces = 0;
  for (const auto& piece : cut.pieces)
    pieces += piece.cut();
  BOOST_TEST(pieces == 8u);
  SampleShape image;
  image.features = {12, 12, 3};
  image.classes = 5;
  BOOST_TEST(cut_into_slices(make_graph("resnet8", image), 4).wholes.empty());
  BOOST_TEST(cut_into_slices(make_graph("mlp:20-3-5"), 4).wholes.empty());
}

BOOST_AUTO_TEST_SUITE_END()
