#pragma once

#include "kernels/files/strict_json.hpp"

#include <string>

namespace troupe {

/// What an event says, in the order in which it was written.
using EventBody = kernels::StrictJson<nlohmann::ordered_map>;

/// An event of this kind in words: a sentence for those kinds that a list of
/// names and values would not do. It may hold anything that the body does.
/// Errors: exceptions of JSON's, where the body does not say what its kind
/// says.
std::string event_sentence(const std::string& kind, const EventBody& body);

} // namespace troupe
