#include "apps/commands/prediction_file.hpp"
#include "kernels/base/error.hpp"
#include "kernels/files/npy_header.hpp"

#include <boost/test/unit_test.hpp>

#include <cmath>
#include <numeric>

using namespace troupe;

BOOST_AUTO_TEST_SUITE(prediction_file)

namespace {

Graph graph_for(const std::string& model, LabelKind label) {
  SampleShape shape;
  shape.features = {3};
  shape.label = label;
  return make_graph(model, shape);
}

Graph of_classes() {
  return graph_for("mlp:3-3", LabelKind::classes);
}
Graph of_two() {
  return graph_for("logreg", LabelKind::binary);
}
Graph of_numbers() {
  return graph_for("mlp:3-1", LabelKind::number);
}

Scores two_of_three() {
  Scores scores;
  scores.samples = 2;
  scores.predictions = {2, 0};
  scores.outputs = {0, 1, 2, 1000, -1000, 0.5f};
  return scores;
}

std::string bytes_of(const std::vector<float>& values) {
  return {reinterpret_cast<const char*>(values.data()), 4 * values.size()};
}

std::string refused(const PredictionFile& file, const Graph& graph) {
  try {
    check_prediction_file(file, graph);
  } catch (const UsageError& mistake) {
    return mistake.what();
  }
  return "";
}

} // namespace

BOOST_AUTO_TEST_CASE(classes_are_lines_of_indices_or_names) {
  const auto graph = of_classes();
  BOOST_TEST(contents_of({"p.txt", "class", {}}, graph, two_of_three())
             == "2\n0\n");
  BOOST_TEST(contents_of({"p.txt", "class", {"red", "green", "a\nb"}}, graph,
                         two_of_three())
             == "a?b\nred\n");
}

BOOST_AUTO_TEST_CASE(probabilities_are_a_table_that_sums_to_one) {
  const auto graph = of_classes();
  const auto found = probabilities_of(graph, two_of_three().outputs);
  BOOST_REQUIRE(found.size() == 6u);
  const auto sum = 1 + std::exp(1.0) + std::exp(2.0);
  for (int i = 0; i < 3; ++i)
    BOOST_TEST(std::fabs(found[static_cast<size_t>(i)] - std::exp(i) / sum)
               < 1e-7);
  BOOST_TEST(found[3] == 1.0f); // no overflow
  BOOST_TEST(found[4] == 0.0f);
  const auto text = contents_of({"p.csv", "probabilities", {}}, graph,
                                two_of_three());
  BOOST_TEST(text.starts_with("0,1,2\n0.0900305"), text);
  BOOST_TEST(text.ends_with("\n1,0,0\n"), text);
  BOOST_TEST(contents_of({"p.csv", "logits", {"a", "b,c", "\"d\""}}, graph,
                         two_of_three())
             == "a,\"b,c\",\"\"\"d\"\"\"\n0,1,2\n1000,-1000,0.5\n");
}

BOOST_AUTO_TEST_CASE(two_classes_have_two_probabilities_and_one_logit) {
  Scores scores;
  scores.samples = 2;
  scores.predictions = {1, 0};
  scores.outputs = {std::log(3.0f), -200};
  const auto graph = of_two();
  const auto found = probabilities_of(graph, scores.outputs);
  BOOST_REQUIRE(found.size() == 4u);
  BOOST_TEST(std::fabs(found[0] - 0.25f) < 1e-6f);
  BOOST_TEST(std::fabs(found[1] - 0.75f) < 1e-6f);
  BOOST_TEST(found[2] == 1.0f);
  BOOST_TEST(found[3] < 1e-38f);
  const auto text = contents_of({"p.csv", "logits", {"no", "yes"}}, graph,
                                scores);
  BOOST_TEST(text.starts_with("yes\n1.098612"), text);
  BOOST_TEST(text.ends_with("\n-200\n"), text);
}

BOOST_AUTO_TEST_CASE(arrays_have_the_shape_that_scikit_and_pytorch_give) {
  const auto graph = of_classes();
  const auto scores = two_of_three();
  BOOST_TEST(contents_of({"p.npy", "logits", {}}, graph, scores)
             == npy_header("<f4", {2, 3}) + bytes_of(scores.outputs));
  const auto classes = contents_of({"p.npy", "class", {}}, graph, scores);
  BOOST_TEST(classes
             == npy_header("<i4", {2}) + std::string("\x02\0\0\0\0\0\0\0", 8));
  Scores numbers;
  numbers.samples = 2;
  numbers.outputs = {1.5f, -2};
  BOOST_TEST(contents_of({"p.npy", "class", {}}, of_numbers(), numbers)
             == npy_header("<f4", {2}) + bytes_of(numbers.outputs));
  BOOST_TEST(contents_of({"p.txt", "class", {}}, of_numbers(), numbers)
             == "1.5\n-2\n");
}

BOOST_AUTO_TEST_CASE(what_cannot_be_given_is_one_line) {
  BOOST_TEST(refused({"p.txt", "probabilities", {}}, of_classes()) == "");
  BOOST_TEST(refused({"p.txt", "probabilities", {}}, of_numbers())
               .starts_with("--output probabilities: --model mlp:3-1 gives "
                            "numbers"));
  BOOST_TEST(refused({"p.npy", "class", {"a", "b", "c"}}, of_classes())
               .starts_with("--out p.npy: the classes of these data are "
                            "texts"));
  BOOST_TEST(refused({"p.npy", "logits", {"a", "b", "c"}}, of_classes()) == "");
}

BOOST_AUTO_TEST_SUITE_END()
