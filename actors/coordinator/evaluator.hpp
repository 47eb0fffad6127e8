#pragma once

#include "actors/compute/evaluated_rows.hpp"
#include "actors/role/context.hpp"

#include <functional>
#include <memory>

namespace troupe {

/// Is told once, by the evaluator, what its samples read of sparse tables.
using RowsKnown = std::function<void(std::shared_ptr<const EvaluatedRows>)>;

/// Spawns the evaluator: receives the slices of a version, computes its
/// measures over the held-out samples on its own executor, in file order, and
/// reports to the coordinator. Where there are sparse tables it looks there
/// first what its samples read of them, and calls `known`. Samples that cannot
/// be read end the run with their line.
evaluator_actor spawn_evaluator(caf::actor_system& system, RoleContext context,
                                RowsKnown known);

} // namespace troupe
