#include "kernels/base/error.hpp"
#include "kernels/graph/model_draft.hpp"

#include <cmath>

namespace troupe::kernels {

namespace {

struct Transformer {
  uint64_t layers = 0;
  uint64_t heads = 0;
  uint64_t width = 0;
  uint64_t window = 0;
  double rate = 0;
};

/// One pre-norm block: attention, then two dense layers, each beside its
/// input.
std::string add_block(Draft& draft, const Transformer& size,
                      const std::string& name, const std::string& input) {
  auto named = [&](const char* part) { return name + "." + part; };
  const auto narrow = 0.02 / std::sqrt(2.0 * static_cast<double>(size.layers));
  auto dense = [&](const char* part, uint64_t units, double scale) {
    draft.add("dense", named(part), {},
              {{"units", units},
               {"bias", false},
               {"initializer", "normal"},
               {"scale", scale}});
  };
  auto added = [&](const char* part, const char* last,
                   const std::string& beside) {
    auto inner = named(last);
    if (size.rate > 0)
      inner = draft.add("dropout", inner + ".dropout", {inner},
                        {{"rate", size.rate}});
    return draft.add("add", named(part), {beside, inner});
  };
  draft.add("layer_norm", named("norm_1"), {input}, {{"bias", false}});
  dense("qkv", 3 * size.width, 0.02);
  draft.add("attention", named("attention"), {},
            {{"heads", size.heads}, {"causal", true}});
  dense("projection", size.width, narrow);
  auto middle = added("add_1", "projection", input);
  draft.add("layer_norm", named("norm_2"), {middle}, {{"bias", false}});
  dense("up", 4 * size.width, 0.02);
  draft.spec.operators.back().attributes.emplace_back("activation", "gelu");
  dense("down", size.width, narrow);
  return added("add_2", "down", middle);
}

} // namespace

/// A language model: learnt positions, pre-norm blocks, the head shares the
/// table of tokens; no biases; weights from N(0, 0.02^2), those that end a
/// block's branch divided by sqrt(2 layers).
/// Source: Radford et al., "Language models are unsupervised multitask
/// learners", 2019, as nanoGPT trains it.
ModelSpec transformer(const ModelText& text, const SampleShape& sample) {
  Transformer size;
  size.layers = text.letter('L', 1, 1000);
  size.heads = text.letter('H', 1, 1024);
  size.width = text.letter('D', 1, 1 << 16);
  size.window = text.letter('T', 1, 1 << 20);
  size.rate = text.fraction('P');
  text.finish();
  if (size.width % size.heads != 0)
    throw UsageError("--model " + text.model + ": " + std::to_string(size.heads)
                     + " heads do not divide the width "
                     + std::to_string(size.width));
  SampleShape made_for;
  made_for.vocabulary = 65;
  made_for.label = LabelKind::tokens;
  Draft draft{text.model, sample, made_for};
  draft.takes(draft.sample().label == LabelKind::tokens, "text");
  draft.spec.sample.ids = static_cast<uint32_t>(size.window);
  draft.add("embedding", "tokens", {},
            {{"width", size.width},
             {"vocabulary", "vocabulary"},
             {"initializer", "normal"},
             {"scale", 0.02}});
  auto last = draft.add("bias", "positions", {},
                        {{"initializer", "normal"}, {"scale", 0.02}});
  if (size.rate > 0)
    last = draft.add("dropout", "dropout", {}, {{"rate", size.rate}});
  for (uint64_t i = 0; i < size.layers; ++i)
    last = add_block(draft, size, "block_" + std::to_string(i), last);
  draft.add("layer_norm", "norm", {}, {{"bias", false}});
  draft.add("dense", "logits", {},
            {{"units", "vocabulary"},
             {"bias", false},
             {"transposed", true},
             {"weight", "tokens/table"}});
  draft.add("softmax_cross_entropy", "loss", {});
  return draft.spec;
}

} // namespace troupe::kernels
