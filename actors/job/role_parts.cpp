#include "actors/job/role_parts.hpp"

#include "actors/job/stage_layers.hpp"
#include "actors/job/tensor_layers.hpp"

#include <algorithm>
#include <utility>

namespace troupe {

RoleParts::RoleParts(const Job& job, RoleId role) : job_(job), role_(role) {
  if (!job.plan.tensor.empty())
    member_ = tensor_part_of(job.graph, job.plan.share(role));
  const auto add = [this](uint32_t number, OpRange ops) {
    chunks_.push_back(
      {number, member_ ? part_of(*member_, ops) : part_of(job_.graph, ops)});
  };
  const auto& stages = job.plan.stages;
  const auto mesh = job.plan.mesh();
  for (auto i = mesh.stage_of(role.index); i < stages.size(); i += mesh.stages)
    add(i, {stages[i].begin, stages[i].end});
  if (stages.empty())
    add(0, {0, static_cast<uint32_t>(job.graph.ops.size())});
}

std::vector<uint32_t> RoleParts::kept(uint32_t chunk) const {
  const auto& slices = job_.plan.role(role_).slices;
  if (job_.plan.stages.empty())
    return slices;
  const auto& variables = job_.plan.stages[chunks_[chunk].number].variables;
  std::vector<uint32_t> out;
  for (auto slice : slices)
    if (std::ranges::binary_search(variables, job_.plan.slices[slice].variable))
      out.push_back(slice);
  return out;
}

StageOptions RoleParts::options(uint32_t chunk) const {
  return stage_options(job_.options, graph(), chunks_[chunk].number,
                       job_.max_rows(), job_.precision());
}

} // namespace troupe
