#pragma once

#include "kernels/graph/model_spec.hpp"
#include "kernels/graph/model_text.hpp"

#include <string>
#include <utility>
#include <vector>

namespace troupe::kernels {

using Attributes = std::vector<std::pair<std::string, AttributeValue>>;
using Names = std::vector<std::string>;

/// A model that is being written.
struct Draft {
  ModelSpec spec;

  Draft(const std::string& name, const SampleShape& given,
        const SampleShape& made_for) {
    spec.name = name;
    spec.sample = given.known() ? given : made_for;
  }

  const SampleShape& sample() const { return spec.sample; }
  /// Returns the name, for later inputs.
  std::string add(const char* kind, const std::string& name, Names inputs,
                  Attributes attributes = {}) {
    spec.operators.push_back(
      {kind, name, std::move(inputs), std::move(attributes)});
    return name;
  }

  /// Errors: InputError that says what the model takes, unless `holds`.
  void takes(bool holds, const std::string& what) const;
  bool images() const {
    return sample().features.size() == 3 && sample().ids == 0;
  }
  bool has_ids() const {
    return sample().ids > 0 && sample().label != LabelKind::tokens;
  }
};

// Each writes one family, fitted to samples of a shape. Errors: as
// built_in_model.
ModelSpec mlp(const ModelText& text, const SampleShape& sample);
ModelSpec cnn(const ModelText& text, const SampleShape& sample);
ModelSpec resnet(const ModelText& text, int blocks, const SampleShape& sample);
ModelSpec transformer(const ModelText& text, const SampleShape& sample);
ModelSpec gpt2(const ModelText& text, const SampleShape& sample);
ModelSpec llama(const ModelText& text, const SampleShape& sample);
ModelSpec dlrm(const ModelText& text, const SampleShape& sample);
ModelSpec wide_deep(const ModelText& text, const SampleShape& sample);
ModelSpec logreg(const ModelText& text, const SampleShape& sample);

} // namespace troupe::kernels
