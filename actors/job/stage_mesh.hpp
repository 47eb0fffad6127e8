#pragma once

#include "actors/job/job_options.hpp"
#include "strategies/mesh.hpp"

#include <algorithm>
#include <string>

namespace troupe {

/// The layout of a job's stages and tensor members: that of hybrid; of pipeline
/// and tensor, one group beside no other.
inline Mesh mesh_of(const JobOptions& options) {
  switch (options.strategy) {
    case Strategy::hybrid:
      return options.cut.mesh;
    case Strategy::tensor:
      return {1, 1, options.cut.tensor};
    default:
      return {1, options.stages, 1};
  }
}

/// Whether all devices are processors: of others nobody knows before they are
/// there what a step takes.
inline bool on_processors(const JobOptions& options) {
  return std::ranges::all_of(options.devices, [](const std::string& device) {
    return device.starts_with("cpu");
  });
}

/// Whether its workers may be of several numeric classes: the bits of steps
/// that all take together are those of one, those of others depend on who comes
/// first in any case.
inline bool may_mix_classes(const JobOptions& options) {
  return options.synchronisation == Synchronisation::async
         && options.dense != "all_reduced";
}

/// Whether slices of layers are with tensor members.
inline bool has_tensor_members(const JobOptions& options) {
  return options.strategy == Strategy::tensor
         || (options.strategy == Strategy::hybrid
             && options.cut.mesh.tensor > 1);
}

/// Whether shards keep what stages compute with.
inline bool has_served_stages(const JobOptions& options) {
  return options.strategy == Strategy::hybrid
         && options.cut.sync_data == "parameter_server";
}

/// Whether layers are on stages, of one pipeline or of several side by side;
/// each may be a group of tensor members.
inline bool has_stages(const JobOptions& options) {
  return options.strategy == Strategy::pipeline
         || (options.strategy == Strategy::hybrid
             && (options.cut.mesh.stages > 1 || !has_tensor_members(options)));
}

} // namespace troupe
