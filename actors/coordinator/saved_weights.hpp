#pragma once

#include "actors/job/job.hpp"
#include "kernels/files/safetensors.hpp"

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace troupe {

/// What became of the weights at the end of a run.
struct SavedWeights {
  std::string line; ///< says where they are, or why nowhere
  bool as_asked = false;
};

/// What is written beside weights: the model, the step that they are of, which
/// samples training did not see, and what the columns of a table became.
std::map<std::string, std::string> weights_metadata(const Job& job,
                                                    uint64_t step);

/// Writes weights to `path`; where that cannot be done, into the first of other
/// folders that takes them: the working directory, the user's own, the one for
/// temporary files. Their name there is FILE.rescued-PID.safetensors.
SavedWeights save_weights(const std::string& path,
                          const std::vector<NamedTensor>& weights,
                          const std::map<std::string, std::string>& metadata);

/// What a run leaves behind. `checkpoint`: the last one's folder, or empty;
/// `failure`: why there is none.
struct EndOfOutputs {
  bool complete = true; ///< all that was asked for is where it should be
  std::string line;
};
EndOfOutputs end_of_outputs(const std::optional<SavedWeights>& weights,
                            const std::string& checkpoint,
                            const std::string& failure);

} // namespace troupe
