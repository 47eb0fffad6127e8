#include "actors/trainer.hpp"
#include "kernels/base/error.hpp"

#include <boost/test/unit_test.hpp>

#include <cmath>

using namespace troupe;

BOOST_AUTO_TEST_SUITE(trainer)

namespace {

/// Points of two features; the sum decides.
TrainerSamples points(size_t count) {
  TrainerSamples out;
  uint32_t state = 7;
  for (size_t i = 0; i < count; ++i) {
    float sum = 0;
    for (int k = 0; k < 2; ++k) {
      state = state * 1664525u + 1013904223u;
      out.features.push_back(static_cast<float>(state >> 8) / 8388608.0f - 1);
      sum += out.features.back();
    }
    out.labels.push_back(sum > 0 ? 1 : 0);
    out.targets.push_back(2 * sum + 1);
  }
  return out;
}

TrainerOptions options(LabelKind label) {
  TrainerOptions out;
  out.strategy = "one_device";
  out.epochs = 40;
  out.learning_rate = 1e-2;
  out.sample.features = {2};
  out.sample.label = label;
  return out;
}

} // namespace

BOOST_AUTO_TEST_CASE(classes_are_learnt_and_predicted) {
  auto how = options(LabelKind::classes);
  how.model = "mlp:2-16-2";
  how.sample.classes = 2;
  how.clip_norm = 1;
  Trainer trained{how};
  auto samples = points(500);
  auto result = trained.fit(samples.features, samples.labels);
  BOOST_TEST(result.steps == 40u * 8u);
  auto classes = trained.predict(samples.features);
  size_t right = 0;
  for (size_t i = 0; i < 500; ++i)
    right += classes[i] == samples.labels[i];
  BOOST_TEST(right > 470u);
}

BOOST_AUTO_TEST_CASE(shares_of_a_model_learn_what_one_device_learns) {
  auto how = options(LabelKind::classes);
  how.model = "mlp:2-16-2";
  how.sample.classes = 2;
  how.epochs = 2;
  const auto samples = points(500);
  const auto whole = Trainer{how}.fit(samples).weights_sha256;
  how.strategy = "fully_sharded";
  how.workers = 2;
  for (const auto* shard : {"optimizer", "gradients", "parameters"}) {
    how.shard = shard;
    BOOST_TEST(Trainer{how}.fit(samples).weights_sha256 == whole);
  }
  how.shard = "all";
  BOOST_CHECK_THROW(Trainer{how}, UsageError);
}

BOOST_AUTO_TEST_CASE(devices_are_counted) {
  auto how = options(LabelKind::classes);
  how.sample.classes = 2;
  how.model = "mlp:2-16-2";
  how.strategy = "mirrored";
  for (const auto* devices :
       {"cpu:", "cpu:0", "cpu:-1", "cpu:2x", "cpu:1025", "cpu:4294967297",
        "cpu:99999999999999999999", "gpu:1"}) {
    how.devices = devices;
    BOOST_CHECK_THROW(Trainer{how}, UsageError);
  }
  how.devices = "cpu:4";
  Trainer{how};
}

BOOST_AUTO_TEST_CASE(numbers_are_learnt_and_predicted) {
  auto how = options(LabelKind::number);
  how.model = "mlp:2-16-1";
  Trainer trained{how};
  auto samples = points(500);
  trained.fit(samples);
  auto predicted = trained.predict(samples);
  BOOST_TEST(predicted.classes.empty());
  BOOST_REQUIRE(predicted.scores.size() == 500u);
  double squares = 0;
  for (size_t i = 0; i < 500; ++i)
    squares += std::pow(predicted.scores[i] - samples.targets[i], 2);
  BOOST_TEST(squares / 500 < 0.05);
}

BOOST_AUTO_TEST_CASE(binary_labels_are_learnt_and_predicted) {
  auto how = options(LabelKind::binary);
  how.model = "logreg";
  how.learning_rate = 0.1;
  Trainer trained{how};
  auto samples = points(500);
  trained.fit(samples);
  auto predicted = trained.predict(samples);
  size_t right = 0;
  for (size_t i = 0; i < 500; ++i) {
    BOOST_REQUIRE(predicted.classes[i] == (predicted.scores[i] > 0.5f ? 1 : 0));
    right += predicted.classes[i] == samples.labels[i];
  }
  BOOST_TEST(right > 470u);
}

// Symptom: a second fit() began with untrained weights, and said nothing.
BOOST_AUTO_TEST_CASE(fitting_again_goes_on) {
  auto how = options(LabelKind::classes);
  how.model = "mlp:2-16-2";
  how.sample.classes = 2;
  how.epochs = 6;
  const auto samples = points(200);
  Trainer whole{how};
  const auto expected = whole.fit(samples);
  how.epochs = 3;
  Trainer twice{how};
  const auto half = twice.fit(samples);
  auto copy = twice;
  const auto both = twice.fit(samples);
  BOOST_TEST(half.weights_sha256 != expected.weights_sha256);
  BOOST_TEST(both.weights_sha256 == expected.weights_sha256);
  BOOST_TEST(both.steps == expected.steps);
  BOOST_TEST(copy.fit(samples).weights_sha256 == expected.weights_sha256);
  auto others = samples;
  others.labels[7] = 1 - others.labels[7];
  BOOST_CHECK_THROW(twice.fit(others), InputError);
}

BOOST_AUTO_TEST_CASE(arrays_that_do_not_fit_are_refused) {
  auto how = options(LabelKind::classes);
  how.model = "mlp:2-4-2";
  how.sample.classes = 2;
  Trainer trained{how};
  BOOST_CHECK_THROW(trained.predict(std::vector<float>{1, 2}), InputError);
  BOOST_CHECK_THROW(trained.fit({1, 2, 3}, {0}), InputError);
  BOOST_CHECK_THROW(trained.fit({1, 2}, {0, 1}), InputError);
  BOOST_CHECK_THROW(trained.fit({1, 2}, {2}), InputError);
  BOOST_CHECK_THROW(trained.fit({}, {}), InputError);
}

BOOST_AUTO_TEST_CASE(members_come_and_go_during_a_fit) {
  auto how = options(LabelKind::classes);
  how.model = "mlp:2-16-2";
  how.sample.classes = 2;
  how.epochs = 2000; // all of it is asked for in turn, ten times a second
  const auto samples = points(500);
  Trainer alone{how};
  const auto expected = alone.fit(samples).weights_sha256;
  how.strategy = "parameter_server";
  how.ps = 2;
  Trainer trained{how};
  BOOST_CHECK_THROW(trained.reshape("shards multiply"), UsageError);
  std::vector<std::future<std::string>> answers;
  for (const char* change :
       {"shards add", "workers add 1", "move-slices ps:2 ps:0", "rebalance",
        "shards remove ps:1", "workers remove worker:0"})
    answers.push_back(trained.reshape(change));
  auto refused = trained.reshape("shards remove ps:9");
  BOOST_TEST(trained.fit(samples).weights_sha256 == expected);
  for (auto& answer : answers)
    BOOST_TEST(!answer.get().empty());
  BOOST_CHECK_THROW(refused.get(), InputError);
}

BOOST_AUTO_TEST_CASE(text_is_not_for_arrays) {
  TrainerOptions how;
  how.model = "transformer:L1-H1-D8-T8";
  BOOST_CHECK_THROW(Trainer{how}, UsageError);
}

BOOST_AUTO_TEST_SUITE_END()
