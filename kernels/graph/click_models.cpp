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

/// Dense layers, relu after all; the last has no relu where `linear`.
std::string add_layers(Draft& draft, const std::string& prefix,
                       const std::string& input,
                       std::initializer_list<int> widths, bool linear) {
  auto last = input;
  size_t i = 0;
  for (auto width : widths) {
    Attributes attributes{{"units", width}};
    if (!linear || i + 1 < widths.size())
      attributes.emplace_back("activation", "relu");
    last = draft.add("dense", prefix + "_" + std::to_string(i++), {last},
                     attributes);
  }
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

void takes_clicks(const Draft& draft) {
  draft.takes(draft.has_ids() && draft.sample().features.size() == 1,
              "features [n] and ids");
}

} // namespace

/// Source: Naumov et al., "Deep learning recommendation model for
/// personalization and recommendation systems", 2019; all categories in one
/// table.
ModelSpec dlrm(const ModelText& text, const SampleShape& sample) {
  Draft draft{text.model, sample, clicks()};
  takes_clicks(draft);
  auto bottom = add_layers(draft, "bottom", "features",
                           {128, 64, embedding_width}, false);
  draft.add("reshape", "bottom", {bottom},
            {{"shape", Shape{1, embedding_width}}});
  add_embedding(draft);
  draft.add("concat", "vectors", {"bottom", "embedding"}, {{"axis", 0}});
  draft.add("interaction", "interaction", {});
  draft.add("concat", "pairs", {bottom, "interaction"});
  add_layers(draft, "top", "pairs", {256, 128, 1}, true);
  draft.add("sigmoid_cross_entropy", "loss", {});
  return draft.spec;
}

/// Source: Cheng et al., "Wide & deep learning for recommender systems", 2016;
/// without crossed categories.
ModelSpec wide_deep(const ModelText& text, const SampleShape& sample) {
  Draft draft{text.model, sample, clicks()};
  takes_clicks(draft);
  draft.add(
    "embedding_bag", "wide_ids", {"ids"},
    {{"width", 1}, {"vocabulary", "vocabulary"}, {"initializer", "zeros"}});
  draft.add("dense", "wide_features", {"features"},
            {{"units", 1}, {"initializer", "zeros"}});
  add_embedding(draft);
  draft.add("reshape", "flatten", {});
  draft.add("concat", "both", {"features", "flatten"});
  auto deep = add_layers(draft, "deep", "both", {256, 128, 1}, true);
  draft.add("add", "sum", {"wide_ids", "wide_features", deep});
  draft.add("sigmoid_cross_entropy", "loss", {});
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
