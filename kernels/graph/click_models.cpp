#include "kernels/graph/model_draft.hpp"

#include <cmath>
#include <initializer_list>

namespace troupe::kernels {

namespace {

SampleShape clicks() {
  SampleShape sample;
  sample.features = {13};
  sample.ids = 26;
  sample.vocabulary = 26 * 1000;
  sample.label = LabelKind::binary;
  return sample;
}

constexpr int embedding_width = 16;

/// Dense layers, relu after each.
std::string add_layers(Draft& draft, const std::string& prefix,
                       const std::string& input,
                       std::initializer_list<int> widths) {
  auto last = input;
  size_t i = 0;
  for (auto width : widths)
    last = draft.add("dense", prefix + "_" + std::to_string(i++), {last},
                     {{"units", width}, {"activation", "relu"}});
  return last;
}

void add_embedding(Draft& draft) {
  // As many rows as a field has on average decide the range.
  const auto& sample = draft.sample();
  const auto rows = static_cast<double>(sample.vocabulary) / sample.ids;
  draft.add("embedding", "embedding", {"ids"},
            {{"width", embedding_width},
             {"vocabulary", "vocabulary"},
             {"initializer", "uniform"},
             {"scale", 1 / std::sqrt(rows)}});
}

void takes_table(const Draft& draft) {
  draft.takes(draft.has_ids() && draft.sample().features.size() <= 1,
              "ids, with or without features [n]");
}

/// What a model gives: a logit a class, of two classes one, or the number.
AttributeValue outputs_of(const Draft& draft) {
  return draft.sample().label == LabelKind::classes ? AttributeValue{"classes"}
                                                    : AttributeValue{1};
}

void add_loss(Draft& draft) {
  const auto label = draft.sample().label;
  draft.add(label == LabelKind::binary   ? "sigmoid_cross_entropy"
            : label == LabelKind::number ? "mean_squared_error"
                                         : "softmax_cross_entropy",
            "loss", {});
}

} // namespace

/// Source: Naumov et al., "Deep learning recommendation model for
/// personalization and recommendation systems", 2019; all categories in one
/// table. Without features the vectors of the ids take the place of theirs.
ModelSpec dlrm(const ModelText& text, const SampleShape& sample) {
  Draft draft{text.model, sample, clicks()};
  takes_table(draft);
  const bool has_features = !draft.sample().features.empty();
  draft.takes(has_features || draft.sample().ids >= 2,
              "two ids or more where there are no features");
  std::string beside;
  if (has_features) {
    beside = add_layers(draft, "bottom", "features",
                        {128, 64, embedding_width});
    draft.add("reshape", "bottom", {beside},
              {{"shape", Shape{1, embedding_width}}});
    add_embedding(draft);
    draft.add("concat", "vectors", {"bottom", "embedding"}, {{"axis", 0}});
    draft.add("interaction", "interaction", {});
  } else {
    add_embedding(draft);
    beside = draft.add("reshape", "flatten", {"embedding"});
    draft.add("interaction", "interaction", {"embedding"});
  }
  draft.add("concat", "pairs", {beside, "interaction"});
  add_layers(draft, "top", "pairs", {256, 128});
  draft.add("dense", "top_2", {}, {{"units", outputs_of(draft)}});
  add_loss(draft);
  return draft.spec;
}

/// Source: Cheng et al., "Wide & deep learning for recommender systems", 2016;
/// without crossed categories.
ModelSpec wide_deep(const ModelText& text, const SampleShape& sample) {
  Draft draft{text.model, sample, clicks()};
  takes_table(draft);
  const bool has_features = !draft.sample().features.empty();
  const auto outputs = outputs_of(draft);
  draft.add("embedding_bag", "wide_ids", {"ids"},
            {{"width", outputs},
             {"vocabulary", "vocabulary"},
             {"initializer", "zeros"}});
  if (has_features)
    draft.add("dense", "wide_features", {"features"},
              {{"units", outputs}, {"initializer", "zeros"}});
  add_embedding(draft);
  draft.add("reshape", "flatten", {});
  if (has_features)
    draft.add("concat", "both", {"features", "flatten"});
  add_layers(draft, "deep", has_features ? "both" : "flatten", {256, 128});
  draft.add("dense", "deep_2", {}, {{"units", outputs}});
  Names summed{"wide_ids", "deep_2"};
  if (has_features)
    summed.insert(summed.begin() + 1, "wide_features");
  draft.add("add", "sum", summed);
  add_loss(draft);
  return draft.spec;
}

/// Logistic regression: one weight for each feature, or for each id.
ModelSpec logreg(const ModelText& text, const SampleShape& sample) {
  SampleShape made_for;
  made_for.features = {22};
  made_for.ids = 22;
  made_for.vocabulary = 127;
  made_for.label = LabelKind::binary;
  Draft draft{text.model, sample, made_for};
  const auto& shape = draft.sample();
  draft.takes(shape.label == LabelKind::classes
                || shape.label == LabelKind::binary,
              "samples with classes");
  const bool binary = shape.label == LabelKind::binary;
  const auto outputs = binary ? AttributeValue{1} : AttributeValue{"classes"};
  const bool weighted = draft.has_ids() && shape.features == Shape{shape.ids};
  if (draft.has_ids())
    draft.add("embedding_bag", "weights",
              weighted ? Names{"ids", "features"} : Names{"ids"},
              {{"width", outputs},
               {"vocabulary", "vocabulary"},
               {"initializer", "zeros"}});
  if (weighted) {
    draft.add("bias", "logits", {});
  } else if (!shape.features.empty()) {
    auto last = std::string{"features"};
    if (shape.features.size() > 1)
      last = draft.add("reshape", "flatten", {last});
    draft.add("dense", draft.has_ids() ? "linear" : "logits", {last},
              {{"units", outputs}, {"initializer", "zeros"}});
    if (draft.has_ids())
      draft.add("add", "logits", {"weights", "linear"});
  } else {
    draft.add("bias", "logits", {});
  }
  draft.add(binary ? "sigmoid_cross_entropy" : "softmax_cross_entropy", "loss",
            {});
  return draft.spec;
}

} // namespace troupe::kernels
