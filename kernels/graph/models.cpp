#include "kernels/graph/models.hpp"

#include "kernels/base/error.hpp"
#include "kernels/graph/built_in_models.hpp"
#include "kernels/graph/model_file.hpp"
#include "kernels/graph/sleep_model.hpp"

namespace troupe {

namespace {

bool is_inline(const std::string& model) {
  return model.starts_with("{");
}

bool is_file(const std::string& model) {
  return model.ends_with(".json") || model.ends_with(".toml");
}

/// What does not fit itself to data as it is written.
ModelSpec written_spec(const std::string& model) {
  if (is_inline(model))
    return parse_model_json(model, "model");
  if (is_file(model))
    return read_model_file(model);
  if (model.starts_with("sleep:"))
    throw UsageError("--model " + model
                     + ": it waits and has no operators to show; use "
                     + built_in_names());
  throw UsageError("--model " + model + ": unknown model; use "
                   + built_in_names());
}

/// More classes than a file says are a mistake of one of the two; fewer may be
/// all that a part of the data has.
void check_classes(const ModelSpec& spec, const SampleShape& sample) {
  const auto said = spec.sample.classes;
  if (said == 0 || sample.label != LabelKind::classes || sample.classes <= said)
    return;
  throw InputError("model" + (spec.name.empty() ? "" : " " + spec.name)
                   + ": its sample says classes = " + std::to_string(said)
                   + ", and the data has labels up to "
                   + std::to_string(sample.classes - 1) + "; write classes = "
                   + std::to_string(sample.classes) + ", or mend the labels");
}

} // namespace

ModelSpec model_spec(const std::string& model, const SampleShape& sample) {
  if (!is_inline(model))
    if (auto spec = built_in_model(model, sample))
      return *std::move(spec);
  return written_spec(model);
}

Graph make_graph(const std::string& model, const SampleShape& sample) {
  if (const auto sleep = sleep_model(model))
    return sleep_graph(model, *sleep, sample);
  // What is wrong without any data is a mistake in the model.
  auto spec = model_spec(model);
  auto graph = build_graph(spec);
  const bool built_in = !is_inline(model) && !is_file(model);
  if (sample.known()) {
    if (built_in)
      spec = model_spec(model, sample);
    else
      check_classes(spec, sample);
    try {
      graph = build_graph(spec, sample);
    } catch (const UsageError& mistake) {
      throw InputError(mistake.what());
    }
  }
  graph.text = built_in ? model : to_json(spec, false);
  return graph;
}

std::string portable_model(const std::string& model) {
  return is_inline(model) || !is_file(model)
           ? model
           : to_json(read_model_file(model), false);
}

} // namespace troupe
