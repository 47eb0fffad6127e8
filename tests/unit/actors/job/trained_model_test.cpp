#include "actors/job/trained_model.hpp"
#include "kernels/base/error.hpp"
#include "kernels/columns/fitted_columns.hpp"
#include "kernels/files/safetensors.hpp"
#include "tests/unit/actors/small_job.hpp"

#include <boost/test/unit_test.hpp>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <fstream>

using namespace troupe;

namespace trained_model_suite {
namespace {

constexpr auto model = "mlp:3-2";

struct Bench {
  std::string path = (std::filesystem::temp_directory_path()
                      / ("troupe_weights_" + std::to_string(::getpid())))
                       .string();
  // Class 0 for a positive first feature, else class 1.
  std::vector<NamedTensor> tensors{
    {"dense_0/weight", {3, 2}, {1, -1, 0, 0, 0, 0}},
    {"dense_0/bias", {2}, {0, 0}},
  };

  ~Bench() { std::filesystem::remove(path); }
  void save() const { write_safetensors(path, tensors, {}); }
  void check_refused(const std::string& part) const {
    save();
    try {
      load_trained_model(model, {}, path);
      BOOST_ERROR("accepted");
    } catch (const InputError& failure) {
      std::string message = failure.what();
      BOOST_CHECK_MESSAGE(message.find(path) != std::string::npos, message);
      BOOST_CHECK_MESSAGE(message.find(part) != std::string::npos, message);
    }
  }
};

/// Samples whose first feature alternates in sign; every fifth label is wrong.
Dataset alternating(uint64_t samples) {
  Dataset data;
  data.name = "alternating";
  data.shape.features = {3};
  data.shape.classes = 2;
  for (uint64_t i = 0; i < samples; ++i) {
    for (auto value : {i % 2 == 0 ? 1.0f : -1.0f, 5.0f, 7.0f})
      data.values.push_back(value);
    auto right = static_cast<int32_t>(i % 2);
    data.labels.push_back(i % 5 == 0 ? 1 - right : right);
  }
  return data;
}

} // namespace
} // namespace trained_model_suite

BOOST_FIXTURE_TEST_SUITE(trained_model_suite, Bench)

// The file has whole layers; what is computed in virtual slices is within
// rounding of that, and a model that cannot be cut so is refused.
BOOST_AUTO_TEST_CASE(saved_weights_are_cut_into_virtual_slices) {
  tensors = {{"dense_0/weight", {3, 4}, {1, -1, 2, 3, 0, 4, 5, 0, 6, 0, 0, 7}},
             {"dense_0/bias", {4}, {0, 1, 2, 3}},
             {"dense_1/weight", {4, 2}, {1, 2, 3, 4, 5, 6, 7, 9}},
             {"dense_1/bias", {2}, {1, -1}}};
  save();
  const auto whole = load_trained_model("mlp:3-4-2", {}, path);
  const auto sliced = load_trained_model("mlp:3-4-2", {}, path, 2);
  BOOST_TEST(sliced.graph.parameters.size() > whole.graph.parameters.size());
  BOOST_TEST(sliced.weights_sha256 == whole.weights_sha256);
  const auto data = alternating(300);
  const auto expected = score(whole, data, DeviceId{}, 1, true);
  const auto found = score(sliced, data, DeviceId{}, 1, true);
  BOOST_REQUIRE_EQUAL(found.outputs.size(), expected.outputs.size());
  for (size_t i = 0; i < found.outputs.size(); ++i)
    BOOST_REQUIRE_CLOSE(found.outputs[i], expected.outputs[i], 1e-4);
  BOOST_CHECK_THROW(load_trained_model("mlp:3-4-2", {}, path, 5), UsageError);
}

BOOST_AUTO_TEST_CASE(saved_weights_predict_whatever_the_number_of_threads) {
  save();
  auto trained = load_trained_model(model, {}, path);
  BOOST_CHECK_EQUAL(trained.weights_sha256, tensors_sha256(tensors));
  auto data = alternating(1000); // three whole batches and a part
  auto one = score(trained, data, DeviceId{}, 1);
  BOOST_CHECK_EQUAL(one.samples, 1000);
  BOOST_CHECK_EQUAL(one.accuracy, 0.8);
  auto right = std::log1p(std::exp(-2.0));
  BOOST_CHECK_CLOSE(one.loss, 0.8 * right + 0.2 * (right + 2), 1e-3);
  BOOST_REQUIRE_EQUAL(one.predictions.size(), 1000);
  for (size_t i = 0; i < 1000; ++i)
    BOOST_REQUIRE_EQUAL(one.predictions[i], static_cast<int32_t>(i % 2));
  auto three = score(trained, data, DeviceId{}, 3);
  BOOST_CHECK_EQUAL(three.loss, one.loss);
  BOOST_CHECK(three.predictions == one.predictions);
}

BOOST_AUTO_TEST_CASE(each_kind_of_label_has_its_measures) {
  auto names = [](const Scores& scores) {
    std::string out;
    for (const auto& measure : scores.measures)
      out += measure.name + ' ';
    return out;
  };
  save();
  auto data = alternating(100);
  auto classes = score(load_trained_model(model, {}, path), data, {}, 1);
  BOOST_TEST(names(classes) == "loss accuracy ");
  BOOST_TEST(classes.measures[1].value == 0.8);
  data.shape.classes = 0;
  data.shape.label = LabelKind::binary;
  tensors.clear();
  for (const auto& parameter : make_graph("logreg", data.shape).parameters) {
    tensors.push_back(
      {parameter.name, parameter.shape, std::vector<float>(parameter.size())});
    if (parameter.size() == 3)
      tensors.back().values[0] = 1;
  }
  save();
  auto binary = score(load_trained_model("logreg", data.shape, path), data, {},
                      1);
  BOOST_TEST(names(binary) == "loss accuracy auc ");
  // Label 1 where the feature is negative, but for every fifth.
  BOOST_TEST(binary.measures[2].value == 0.2,
             boost::test_tools::tolerance(1e-12));
  data.shape.label = LabelKind::number;
  data.targets = std::vector<float>(100, 1.0f);
  tensors = {{"dense_0/weight", {3, 1}, {1, 0, 0}}, {"dense_0/bias", {1}, {0}}};
  save();
  auto numbers = score(load_trained_model("mlp:3-1", data.shape, path), data,
                       {}, 1);
  BOOST_TEST(names(numbers) == "loss ");
  BOOST_TEST(numbers.predictions.empty());
  BOOST_TEST(numbers.outputs.size() == 100u);
}

BOOST_AUTO_TEST_CASE(logits_of_all_classes_are_given_where_they_are_asked_for) {
  save();
  const auto trained = load_trained_model(model, {}, path);
  const auto data = alternating(600);
  const auto without = score(trained, data, {}, 1);
  BOOST_TEST(without.outputs.empty());
  const auto with = score(trained, data, {}, 3, true);
  BOOST_TEST(with.predictions == without.predictions,
             boost::test_tools::per_element());
  BOOST_REQUIRE(with.outputs.size() == 1200u);
  for (size_t i = 0; i < 600; ++i) {
    const auto* row = with.outputs.data() + 2 * i;
    BOOST_REQUIRE_EQUAL(row[1] > row[0] ? 1 : 0, with.predictions[i]);
    BOOST_REQUIRE_EQUAL(std::fabs(row[1] - row[0]), 2.0f);
  }
}

BOOST_AUTO_TEST_CASE(weights_of_another_model_are_refused) {
  auto whole = tensors;
  tensors[0].shape = {2, 3};
  check_refused("dense_0/weight is [2, 3] but the model needs [3, 2]");
  tensors = whole;
  tensors[1].name = "bias";
  check_refused("dense_0/bias is missing");
  tensors = whole;
  tensors.push_back({"dense_1/bias", {1}, {0}});
  check_refused("holds 3 tensors but the model has 2");
}

BOOST_AUTO_TEST_CASE(samples_of_another_shape_are_refused) {
  save();
  auto trained = load_trained_model(model, {}, path);
  auto data = alternating(10);
  data.shape.features = {2};
  data.values.resize(20);
  BOOST_CHECK_THROW(score(trained, data, DeviceId{}, 1), InputError);
}

// A text by bytes or characters has other tokens than weights whose folder
// brings a tokenizer.
BOOST_AUTO_TEST_CASE(weights_know_the_tokenizer_beside_them) {
  namespace fs = std::filesystem;
  const fs::path folder{path + "_folder"};
  fs::create_directories(folder);
  const auto weights = (folder / "model.safetensors").string();
  write_safetensors(weights, tensors, {{"format", "pt"}});
  std::ofstream{folder / "config.json"} << "{}";
  auto options = test::small_job();
  const auto other = [&](const std::string& data, const std::string& from) {
    options.data = data;
    return other_meaning(Job{options, 500}, from);
  };
  BOOST_TEST(other("text:x", weights).empty());
  BOOST_TEST(kept_model(folder.string()).model
             == (folder / "config.json").string());
  BOOST_TEST((kept_columns(weights) == nullptr));
  std::ofstream{folder / "tokenizer.json"} << R"({"model": {"type": "BPE",
    "vocab": {"a": 0, "b": 1, "ab": 2}, "merges": ["a b"]},
    "added_tokens": []})";
  for (const auto& from : {weights, folder.string()}) {
    BOOST_TEST(other("text:x", from) == "tokens are not the bytes of");
    BOOST_TEST(other("synthetic:text", from).empty());
    BOOST_TEST(!kept_columns(from)->tokenizer.empty());
  }
  // One of a kind that is not read is as none.
  std::ofstream{folder / "tokenizer.json"}
    << R"({"model": {"type": "Unigram"}})";
  BOOST_TEST((kept_columns(weights) == nullptr));
  fs::remove_all(folder);
}

BOOST_AUTO_TEST_SUITE_END()
