#pragma once

#include "kernels/files/safetensors.hpp"
#include "kernels/graph/graph.hpp"
#include "kernels/graph/model_json.hpp"
#include "kernels/graph/model_spec.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace troupe {

// Models and weights as Hugging Face's transformers has them: config.json, and
// model.safetensors, read in float32, float16 or bfloat16 and written in
// float32. GPT-2 and Llama.

/// Tells a config.json from a model file.
bool is_hugging_face_config(const kernels::Json& json);

/// The model that a config.json describes.
/// Errors: UsageError naming the file and what of it is not computed here.
ModelSpec hugging_face_model(const kernels::Json& config,
                             const std::string& where);

/// Whether a tensor is one of their tables of tokens.
bool is_hugging_face_table(std::string_view name);

/// Whether weights have it to be learned: what their models compute from
/// (masks, of any type) is not.
bool is_learned_tensor(const std::string& name);

/// Tensors by this project's names and layouts, where they have theirs; others
/// stay. Of learned ones.
/// Errors: InputError naming the file and a tensor that is missing or has
/// another shape, or for a graph that is neither.
std::vector<NamedTensor> from_hugging_face(const Graph& graph,
                                           std::vector<NamedTensor> tensors,
                                           const std::string& where);

/// What a folder of theirs holds.
struct HuggingFaceModel {
  std::string config; ///< config.json
  std::vector<NamedTensor> tensors;
};

/// The parameters of a graph, whole, for transformers to load.
/// Errors: InputError for a graph that computes anything else than the two do.
HuggingFaceModel to_hugging_face(const Graph& graph,
                                 const std::vector<NamedTensor>& tensors);

} // namespace troupe
