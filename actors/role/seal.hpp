#pragma once

#include "actors/role/context.hpp"

#include <cstdint>
#include <utility>
#include <vector>

namespace troupe {

/// Tells the coordinator what a role holds as it leaves an epoch, for the next
/// one: slices, and `nodes` of step `version`.
template <class Pointer>
void send_seal(Pointer self, const RoleContext& context, const Fence& fence,
               std::vector<SliceState> slices, uint64_t version = 0,
               std::vector<RankRange> nodes = {}) {
  self->send(context.coordinator,
             Sealed{fence, context.role, context.incarnation, std::move(slices),
                    version, std::move(nodes)});
  context.faults->pass(StepPhase::seal);
}

} // namespace troupe
