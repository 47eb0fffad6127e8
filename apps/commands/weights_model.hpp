#pragma once

#include "actors/job/trained_model.hpp"
#include "apps/settings/settings.hpp"

#include <string>

namespace troupe {

/// The model of saved weights: the one of --model where that is given, else the
/// one that they name.
/// Errors: InputError where neither is.
std::string model_of(const Settings& settings, const KeptModel& kept);

} // namespace troupe
