#include "kernels/graph/text_models.hpp"

#include "kernels/base/error.hpp"
#include "kernels/graph/model_draft.hpp"

#include <cmath>

namespace troupe::kernels {

namespace {

/// A language model that is being written. Weights are from N(0, 0.02^2), those
/// that end a block's branch divided by sqrt(2 layers).
class TextDraft {
public:
  template <class Size>
  TextDraft(const std::string& name, const Size& size,
            const SampleShape& sample)
    : draft_(name, sample, made_for()),
      narrow_(0.02 / std::sqrt(2.0 * static_cast<double>(size.layers))),
      rate_(size.rate) {
    draft_.takes(draft_.sample().label == LabelKind::tokens, "text");
    draft_.spec.sample.ids = static_cast<uint32_t>(size.window);
    if (size.vocabulary > 0)
      vocabulary_ = size.vocabulary;
  }

  static SampleShape made_for() {
    SampleShape sample;
    sample.vocabulary = 65;
    sample.label = LabelKind::tokens;
    return sample;
  }

  std::string tokens(uint64_t width) {
    return draft_.add("embedding", "tokens", {},
                      {{"width", width},
                       {"vocabulary", vocabulary_},
                       {"initializer", "normal"},
                       {"scale", 0.02}});
  }

  void dense(const std::string& name, uint64_t units, bool bias,
             bool ends_branch = false) {
    draft_.add("dense", name, {},
               {{"units", units},
                {"bias", bias},
                {"initializer", "normal"},
                {"scale", ends_branch ? narrow_ : 0.02}});
  }

  /// The sum of a block's input and a branch that `last` ends.
  std::string add(const std::string& name, const std::string& beside,
                  std::string last) {
    if (rate_ > 0)
      last = draft_.add("dropout", last + ".dropout", {last},
                        {{"rate", rate_}});
    return draft_.add("add", name, {beside, last});
  }

  std::string dropped(const std::string& last) {
    return rate_ > 0 ? draft_.add("dropout", "dropout", {}, {{"rate", rate_}})
                     : last;
  }

  /// Logits by the table of tokens.
  void tied_head() {
    draft_.add("dense", "logits", {},
               {{"units", vocabulary_},
                {"bias", false},
                {"transposed", true},
                {"weight", "tokens/table"}});
  }

  /// Logits by a weight of their own.
  void own_head() {
    draft_.add("dense", "logits", {},
               {{"units", vocabulary_},
                {"bias", false},
                {"initializer", "normal"},
                {"scale", 0.02}});
  }

  ModelSpec finish() {
    draft_.add("softmax_cross_entropy", "loss", {});
    return std::move(draft_.spec);
  }

  Draft& draft() { return draft_; }
  ModelSpec& spec() { return draft_.spec; }

private:
  Draft draft_;
  double narrow_;
  double rate_;
  AttributeValue vocabulary_ = "vocabulary"; ///< the data's, or a number
};

Attributes norm_attributes(const GptSize& size) {
  Attributes attributes{{"bias", size.biases}};
  if (size.epsilon != GptSize{}.epsilon)
    attributes.emplace_back("epsilon", size.epsilon);
  return attributes;
}

Attributes norm_attributes(const LlamaSize& size) {
  if (size.epsilon == LlamaSize{}.epsilon)
    return {};
  return {{"epsilon", size.epsilon}};
}

/// One pre-norm block: attention, then two dense layers, each beside its
/// input.
std::string add_block(TextDraft& text, const GptSize& size,
                      const std::string& name, const std::string& input) {
  auto named = [&](const char* part) { return name + "." + part; };
  auto& draft = text.draft();
  draft.add("layer_norm", named("norm_1"), {input}, norm_attributes(size));
  text.dense(named("qkv"), 3 * size.width, size.biases);
  draft.add("attention", named("attention"), {},
            {{"heads", size.heads}, {"causal", true}});
  text.dense(named("projection"), size.width, size.biases, true);
  auto middle = text.add(named("add_1"), input, named("projection"));
  draft.add("layer_norm", named("norm_2"), {middle}, norm_attributes(size));
  text.dense(named("up"), 4 * size.width, size.biases);
  text.spec().operators.back().attributes.emplace_back("activation",
                                                       size.activation);
  text.dense(named("down"), size.width, size.biases, true);
  return text.add(named("add_2"), middle, named("down"));
}

/// The same with RMS norms, rotary positions, shared keys and SwiGLU.
std::string add_block(TextDraft& text, const LlamaSize& size,
                      const std::string& name, const std::string& input) {
  auto named = [&](const char* part) { return name + "." + part; };
  auto& draft = text.draft();
  Attributes heads{{"heads", size.heads}, {"key_value_heads", size.key_heads}};
  auto turns = heads;
  if (size.base != LlamaSize{}.base)
    turns.emplace_back("base", size.base);
  heads.emplace_back("causal", true);
  draft.add("rms_norm", named("norm_1"), {input}, norm_attributes(size));
  text.dense(named("qkv"), (size.heads + 2 * size.key_heads) * size.head,
             false);
  draft.add("rotary", named("rotary"), {}, turns);
  draft.add("attention", named("attention"), {}, heads);
  text.dense(named("projection"), size.width, false, true);
  auto middle = text.add(named("add_1"), input, named("projection"));
  draft.add("rms_norm", named("norm_2"), {middle}, norm_attributes(size));
  text.dense(named("gate_up"), 2 * size.hidden, false);
  draft.add("swiglu", named("swiglu"), {});
  text.dense(named("down"), size.width, false, true);
  return text.add(named("add_2"), middle, named("down"));
}

GptSize gpt_size(const ModelText& text) {
  GptSize size;
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
  return size;
}

} // namespace

/// Learnt positions, pre-norm blocks, the head shares the table of tokens.
/// Source: Radford et al., "Language models are unsupervised multitask
/// learners", 2019; without biases as nanoGPT trains it.
ModelSpec gpt_model(const std::string& name, const GptSize& size,
                    const SampleShape& sample) {
  TextDraft text{name, size, sample};
  text.tokens(size.width);
  auto last = text.draft().add("bias", "positions", {},
                               {{"initializer", "normal"}, {"scale", 0.02}});
  last = text.dropped(last);
  for (uint64_t i = 0; i < size.layers; ++i)
    last = add_block(text, size, "block_" + std::to_string(i), last);
  text.draft().add("layer_norm", "norm", {}, norm_attributes(size));
  text.tied_head();
  return text.finish();
}

/// Source: Touvron et al., "LLaMA: Open and Efficient Foundation Language
/// Models", 2023, section 2.2.
ModelSpec llama_model(const std::string& name, const LlamaSize& size,
                      const SampleShape& sample) {
  TextDraft text{name, size, sample};
  auto last = text.dropped(text.tokens(size.width));
  for (uint64_t i = 0; i < size.layers; ++i)
    last = add_block(text, size, "block_" + std::to_string(i), last);
  text.draft().add("rms_norm", "norm", {}, norm_attributes(size));
  if (size.tied)
    text.tied_head();
  else
    text.own_head();
  return text.finish();
}

ModelSpec transformer(const ModelText& text, const SampleShape& sample) {
  return gpt_model(text.model, gpt_size(text), sample);
}

ModelSpec gpt2(const ModelText& text, const SampleShape& sample) {
  auto size = gpt_size(text);
  size.biases = true;
  size.activation = "gelu_tanh";
  return gpt_model(text.model, size, sample);
}

ModelSpec llama(const ModelText& text, const SampleShape& sample) {
  LlamaSize size;
  size.layers = text.letter('L', 1, 1000);
  size.heads = text.letter('H', 1, 1024);
  size.key_heads = text.letter_or('K', 1, 1024, size.heads);
  size.width = text.letter('D', 1, 1 << 16);
  // As many parameters as two layers of 4 D would have, in round numbers.
  size.hidden = text.letter_or('F', 1, 1 << 18,
                               (8 * size.width / 3 + 31) / 32 * 32);
  size.window = text.letter('T', 1, 1 << 20);
  size.rate = text.fraction('P');
  text.finish();
  size.head = size.width / size.heads;
  if (size.width % size.heads != 0 || size.heads % size.key_heads != 0)
    throw UsageError("--model " + text.model + ": " + std::to_string(size.heads)
                     + " heads have to divide the width "
                     + std::to_string(size.width) + ", and "
                     + std::to_string(size.key_heads)
                     + " of keys and values those");
  return llama_model(text.model, size, sample);
}

} // namespace troupe::kernels
