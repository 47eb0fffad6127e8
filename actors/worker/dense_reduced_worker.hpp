#pragma once

#include "actors/role/context.hpp"

namespace troupe {

/// Spawns a worker of parameter_server that keeps the dense variables itself
/// (--dense all_reduced): rows of sparse tables come from shards and go there
/// as any worker's; dense gradients are summed in the group of all workers, as
/// replicas do it. A step is over for it when the rows of the next version are
/// here, and its dense variables have it too.
/// Source: Kim et al., "Parallax: Sparsity-aware Data Parallel Training of Deep
/// Neural Networks", EuroSys 2019.
worker_actor spawn_dense_reduced_worker(caf::actor_system& system,
                                        RoleContext context);

} // namespace troupe
