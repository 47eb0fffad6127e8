#pragma once

#include "kernels/graph/model_spec.hpp"

#include <optional>
#include <string>

namespace troupe {

/// The specification of a built-in model, fitted to samples of a shape; where
/// the shape is not known(), to the one that the model is made for. Nothing if
/// the text names none of them.
/// Errors: UsageError for bad numbers; InputError for samples that it does not
/// take.
std::optional<ModelSpec> built_in_model(const std::string& model,
                                        const SampleShape& sample);

/// What a built-in model may be called, for messages.
std::string built_in_names();

} // namespace troupe
