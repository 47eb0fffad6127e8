#pragma once

#include "actors/job/job.hpp"
#include "kernels/engine/replica.hpp"

#include <string>

namespace troupe {

/// Hash of a batch's forward and backward pass from initial parameters, and of
/// their update by the job's rule, taken part by part: no more than one part's
/// parameters are there at once. Norms over all parameters are left out.
std::string probe_of_parts(const Job& job, DeviceId device, const Batch& batch);

} // namespace troupe
