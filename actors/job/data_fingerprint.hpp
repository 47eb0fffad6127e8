#pragma once

#include "actors/job/job.hpp"

#include <string>

namespace troupe {

/// A few samples' values as a number: other data are noticed. A checkpoint has
/// it.
std::string data_fingerprint(const Job& job, const Dataset& data);

/// The same of all samples where they are 16 MiB at most, gathered; else of
/// those few, wherever they lie: a role that joins has it (PROTOCOL 21).
/// Errors: InputError as of Dataset::gather().
std::string data_contents(const Job& job, const Dataset& data);

} // namespace troupe
