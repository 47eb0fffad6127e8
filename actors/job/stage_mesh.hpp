#pragma once

#include "actors/job/job_options.hpp"
#include "strategies/mesh.hpp"

namespace troupe {

/// The layout of a job's stages: that of hybrid; of pipeline, one beside no
/// other.
inline Mesh mesh_of(const JobOptions& options) {
  return options.strategy == Strategy::hybrid ? options.cut.mesh
                                              : Mesh{1, options.stages};
}

} // namespace troupe
