#include "strategies/plan.hpp"

#include <algorithm>
#include <set>

namespace troupe {

namespace {

using Row = std::vector<std::string>;

/// Prints the rows with aligned columns, two spaces apart.
std::string aligned(const std::vector<Row>& rows) {
  std::vector<size_t> widths;
  for (const auto& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (size_t i = 0; i < row.size(); ++i)
      widths[i] = std::max(widths[i], row[i].size());
  }
  std::string out;
  for (const auto& row : rows) {
    for (size_t i = 0; i < row.size(); ++i) {
      out += row[i];
      if (i + 1 < row.size())
        out.append(widths[i] - row[i].size() + 2, ' ');
    }
    out += '\n';
  }
  return out;
}

/// Prints ascending numbers as runs: "0-3,7".
std::string runs(const std::vector<uint32_t>& numbers) {
  std::string out;
  for (size_t i = 0; i < numbers.size();) {
    auto last = i;
    while (last + 1 < numbers.size() && numbers[last + 1] == numbers[last] + 1)
      ++last;
    out += (out.empty() ? "" : ",") + std::to_string(numbers[i]);
    if (last > i)
      out += '-' + std::to_string(numbers[last]);
    i = last + 1;
  }
  return out.empty() ? "-" : out;
}

std::string bytes(uint64_t elements) {
  return std::to_string(elements * sizeof(float));
}

std::string ranks_of(const RolePlan& role, const Plan& plan) {
  if (role.role.kind == RoleKind::worker
      && plan.synchronisation == Synchronisation::async)
    return "leases";
  if (role.ranks.empty())
    return "-";
  std::vector<uint32_t> numbers;
  for (auto rank = role.ranks.lo; rank < role.ranks.hi; ++rank)
    numbers.push_back(rank);
  return runs(numbers);
}

/// The roles of a pipeline, or of a group of tensor members.
std::string pipeline_of(const Plan& plan, uint32_t pipeline) {
  std::vector<RoleId> roles;
  const auto each = plan.mesh().each();
  for (uint32_t place = 0; place < each; ++place)
    roles.push_back({plan.computing(), pipeline * each + place});
  return to_string(roles);
}

std::string summary_of(const Plan& plan) {
  uint64_t parameters = 0;
  for (const auto& variable : plan.variables)
    parameters += variable.size();
  auto synchronisation =
    plan.synchronisation == Synchronisation::sync ? "sync" : "async";
  std::vector<Row> rows{
    {"strategy", to_string(plan.strategy)},
    {"synchronisation", synchronisation},
    {"reduction", plan.reduction},
    {"roles run as",
     !plan.processes ? "actors of one process"
     : plan.paired ? "processes, a worker with the shard of its number in each"
                   : "processes"},
    {"virtual ranks", std::to_string(plan.virtual_ranks)},
    {"global batch", std::to_string(plan.global_batch)},
    {"parameters", std::to_string(parameters)},
  };
  const bool meshed = plan.strategy == Strategy::hybrid;
  for (uint32_t i = 0; meshed && i < plan.mesh().data; ++i)
    rows.push_back(
      {(plan.stages.empty() ? "group " : "pipeline ") + std::to_string(i),
       pipeline_of(plan, i)});
  return aligned(rows);
}

std::string roles_of(const Plan& plan) {
  std::vector<Row> rows{{"role", "device", "virtual ranks", "slices", "bytes"}};
  for (const auto& role : plan.roles) {
    uint64_t elements = 0;
    for (auto id : role.slices)
      elements += plan.slices[id].count + plan.slices[id].expected;
    const bool pulls = plan.served && !role.slices.empty()
                       && !plan.keeps(role.role);
    rows.push_back({to_string(role.role), role.device, ranks_of(role, plan),
                    (pulls ? "pulls " : "") + runs(role.slices),
                    role.slices.empty() ? "-" : bytes(elements)});
  }
  return aligned(rows);
}

/// Those of one place in each pipeline, or group.
std::vector<RoleId> roles_of_place(const Plan& plan, uint32_t place) {
  std::vector<RoleId> roles;
  const auto mesh = plan.mesh();
  for (uint32_t pipeline = 0; pipeline < mesh.data; ++pipeline)
    roles.push_back({plan.computing(), pipeline * mesh.each() + place});
  return roles;
}

/// The members of a stage, in each pipeline.
std::vector<RoleId> roles_of_stage(const Plan& plan, uint32_t stage) {
  std::vector<RoleId> roles;
  const auto mesh = plan.mesh();
  for (uint32_t pipeline = 0; pipeline < mesh.data; ++pipeline)
    for (uint32_t member = 0; member < mesh.tensor; ++member)
      roles.push_back({plan.computing(), mesh.member(pipeline, stage, member)});
  return roles;
}

std::string stages_of(const Plan& plan) {
  const auto stages = plan.mesh().stages;
  std::vector<Row> rows{{"stage", "layers", "FLOPs a sample", "bytes in",
                         "bytes back", "in flight"}};
  for (size_t i = 0; i < plan.stages.size(); ++i) {
    const auto& stage = plan.stages[i];
    const auto chunk = i / stages;
    const bool several = plan.stages.size() > stages;
    rows.push_back({to_string(roles_of_stage(plan, i % stages))
                      + (several ? ", chunk " + std::to_string(chunk) : ""),
                    stage.first == stage.last
                      ? stage.first
                      : stage.first + " to " + stage.last,
                    std::to_string(stage.flops),
                    i == 0 ? "-" : std::to_string(stage.bytes_in),
                    i == 0 ? "-" : std::to_string(stage.bytes_back),
                    std::to_string(stage.in_flight)});
  }
  return aligned(rows);
}

std::string shares_of(const Plan& plan) {
  const bool staged = !plan.stages.empty();
  std::vector<Row> rows{{"member", "virtual slices", "FLOPs a sample",
                         "sums forward", "sums backward",
                         "bytes a sample to each"}};
  if (staged)
    rows.front().insert(rows.front().begin() + 1, "stage");
  for (uint32_t i = 0; i < plan.tensor.size(); ++i) {
    const auto& share = plan.tensor[i];
    std::vector<uint32_t> slices;
    for (auto slice = share.slices.lo; slice < share.slices.hi; ++slice)
      slices.push_back(slice);
    rows.push_back(
      {to_string(roles_of_place(plan, i)), runs(slices),
       std::to_string(share.flops), std::to_string(share.forward_sums),
       std::to_string(share.backward_sums), std::to_string(share.bytes)});
    if (staged)
      rows.back().insert(rows.back().begin() + 1,
                         std::to_string(plan.mesh().stage_of(i)));
  }
  return aligned(rows);
}

std::string variables_of(const Plan& plan) {
  struct Place {
    std::vector<uint32_t> slices;
    std::set<RoleId> owners;
    bool every_worker = false;
  };
  std::vector<Place> places(plan.variables.size());
  for (const auto& slice : plan.slices) {
    auto& place = places[slice.variable];
    place.slices.push_back(slice.id);
    if (plan.owner[slice.id] == Plan::every_worker)
      place.every_worker = true;
    else if (!has_model_part(plan.owner_kind))
      place.owners.insert({plan.owner_kind, plan.owner[slice.id]});
    else // each pipeline, or group, has all
      for (auto member : plan.replicas(slice.id))
        place.owners.insert({plan.owner_kind, member});
  }
  std::vector<Row> rows{{"variable", "shape", "bytes", "slices", "owners"}};
  for (size_t i = 0; i < plan.variables.size(); ++i) {
    const auto& variable = plan.variables[i];
    std::string shape;
    for (auto extent : variable.shape)
      shape += (shape.empty() ? "" : "x") + std::to_string(extent);
    std::string owners = places[i].every_worker ? "every worker" : "";
    const auto keeps = [i](const TensorShare& share) {
      return std::ranges::binary_search(share.variables, i);
    };
    if (!plan.served && std::ranges::count_if(plan.tensor, keeps) > 1) {
      const auto place = std::ranges::find_if(plan.tensor, keeps)
                         - plan.tensor.begin();
      owners = "every member";
      if (!plan.stages.empty())
        owners += " of stage " + std::to_string(place / plan.group);
      places[i].owners.clear();
    }
    for (auto role : places[i].owners)
      owners += (owners.empty() ? "" : ",") + to_string(role);
    if (variable.partitions > 0)
      shape += " by rows";
    rows.push_back({variable.name, shape.empty() ? "scalar" : shape,
                    bytes(variable.size()), runs(places[i].slices),
                    owners.empty() ? "-" : owners});
  }
  return aligned(rows);
}

} // namespace

std::string to_table(const Plan& plan) {
  auto out = summary_of(plan) + '\n' + roles_of(plan);
  if (!plan.stages.empty())
    out += '\n' + stages_of(plan);
  if (!plan.tensor.empty())
    out += '\n' + shares_of(plan);
  if (!plan.variables.empty())
    out += '\n' + variables_of(plan);
  return out;
}

} // namespace troupe
