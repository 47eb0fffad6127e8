#pragma once

#include "actors/job/job_options.hpp"
#include "actors/job/layout_choice.hpp"
#include "kernels/engine/operator_times.hpp"
#include "kernels/graph/graph.hpp"
#include "strategies/mesh.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace troupe {

/// Which mesh so many devices are best laid out as.
struct MeshChoice {
  struct Tried {
    Mesh mesh;
    uint64_t step = 0; ///< as LayoutChoice
    bool fits = true;
  };
  JobOptions options;       ///< hybrid, with mesh, cuts and schedule
  LayoutChoice layout;      ///< of that mesh
  std::vector<Tried> tried; ///< the chosen one first, then the fastest
};

/// The mesh of `devices` members at most that takes a step least, of those that
/// keep to the limit of memory; of those as fast the one with the fewest
/// members. Stages of tensor members keep as many, where there are enough.
/// Cuts that are named are of another mesh, and are left out.
/// Errors: UsageError where there is none.
MeshChoice choose_mesh(JobOptions options, const Graph& graph, uint32_t rows,
                       const std::vector<OperatorTime>& times,
                       uint32_t devices);
/// The same of a job made of these options, as choose_layout().
MeshChoice choose_mesh(JobOptions options, const Job& made, uint32_t devices);

/// For people: "data=3,stage=2 of 7 devices: a step of 800 ms (data=2,stage=3
/// 820 ms)".
std::string to_string(const MeshChoice& choice, uint32_t devices);

} // namespace troupe
