#pragma once

#include "actors/job/checkpoint_options.hpp"
#include "actors/job/job.hpp"

#include <string>

namespace troupe {

/// Writes the weights of `options.initial` as the job's checkpoint of step 0,
/// with nothing in the optimizer's state, into `options.dir`; returns its
/// folder. `fingerprint`: of the samples.
/// Errors: InputError for the file, also where its tensors are not the model's,
/// for the folder, and where the job keeps tables by rows.
std::string write_initial_weights(const Job& job,
                                  const CheckpointOptions& options,
                                  const std::string& fingerprint);

} // namespace troupe
