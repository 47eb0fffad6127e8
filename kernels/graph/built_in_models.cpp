#include "kernels/graph/built_in_models.hpp"

#include "kernels/graph/model_draft.hpp"

namespace troupe {

std::optional<ModelSpec> built_in_model(const std::string& model,
                                        const SampleShape& sample) {
  using namespace kernels;
  const ModelText text{model};
  if (text.kind == "mlp")
    return mlp(text, sample);
  if (text.kind == "transformer")
    return transformer(text, sample);
  if (text.kind == "gpt2")
    return gpt2(text, sample);
  if (text.kind == "llama")
    return llama(text, sample);
  constexpr std::pair<const char*,
                      ModelSpec (*)(const ModelText&, const SampleShape&)>
    plain[] = {
      {"cnn", cnn},
      {"dlrm", dlrm},
      {"wide_deep", wide_deep},
      {"logreg", logreg},
    };
  for (auto [name, make] : plain)
    if (text.kind == name) {
      text.finish();
      return make(text, sample);
    }
  for (int blocks = 1; blocks <= 18; ++blocks)
    if (text.kind == "resnet" + std::to_string(6 * blocks + 2)) {
      text.finish();
      return resnet(text, blocks, sample);
    }
  return std::nullopt;
}

std::string built_in_names() {
  return "mlp:784-512-256-10, cnn, resnet8, resnet20, "
         "transformer:L4-H4-D128-T64, gpt2:L4-H4-D128-T64, "
         "llama:L4-H4-K2-D128-T64, dlrm, wide_deep, logreg, sleep:20ms, "
         "FILE.json or FILE.toml";
}

} // namespace troupe
