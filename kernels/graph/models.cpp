#include "kernels/graph/models.hpp"

#include "kernels/error.hpp"
#include "kernels/graph/built_in_models.hpp"

namespace troupe {

ModelSpec model_spec(const std::string& model, const SampleShape& sample) {
  if (auto spec = built_in_model(model, sample))
    return *std::move(spec);
  if (model.starts_with("sleep:"))
    throw UsageError("--model " + model + ": not available yet; use "
                     + built_in_names());
  if (model.find('/') != std::string::npos
      || model.find('.') != std::string::npos)
    throw UsageError("--model " + model
                     + ": models from a file are not available yet; use "
                     + built_in_names());
  throw UsageError("--model " + model + ": unknown model; use "
                   + built_in_names());
}

Graph make_graph(const std::string& model, const SampleShape& sample) {
  // What is wrong without any data is a mistake in the model.
  auto graph = build_graph(model_spec(model, {}));
  if (sample.known()) {
    const auto spec = model_spec(model, sample);
    try {
      graph = build_graph(spec, sample);
    } catch (const UsageError& mistake) {
      throw InputError(mistake.what());
    }
  }
  graph.text = model;
  return graph;
}

} // namespace troupe
