#pragma once

#include "kernels/graph/model_spec.hpp"

#include <string>

namespace troupe {

/// Reads a model file, JSON or TOML by its ending; docs/models.md says what it
/// holds. The model is called as the file.
/// Errors: UsageError, one line with the file and the place in it; InputError
/// for a file that cannot be read.
ModelSpec read_model_file(const std::string& path);

/// Reads the text of a model file; `where` names it in messages, and the model
/// where the text does not.
ModelSpec parse_model_json(const std::string& text, const std::string& where);
ModelSpec parse_model_toml(const std::string& text, const std::string& where);

/// What parse_model_json reads back as the same specification; `pretty`: an
/// operator a line, else all on one.
std::string to_json(const ModelSpec& spec, bool pretty);

} // namespace troupe
