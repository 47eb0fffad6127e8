#pragma once

#include "actors/role/context.hpp"

#include <type_traits>
#include <utility>

namespace troupe {

/// The behaviour of a member: what all roles answer alike, then its own.
/// `context` must live as long as the actor.
template <class Pointer, class... Own>
auto role_behavior(Pointer self, RoleContext& context, Own... own) {
  guard_role(self, context.coordinator);
  report_metrics(self, context);
  using Actor = std::remove_pointer_t<Pointer>;
  return typename Actor::behavior_type{
    [self, job = context.job_id](const Finish& x) {
      if (x.job == job)
        self->quit();
    },
    [](const Completion& x) { x.then(); },
    [self, &context](caf::tick_atom) { report_metrics(self, context); },
    [&context](const ArmFault& x) {
      if (x.job == context.job_id)
        context.faults->arm({x.kind, x.phase, x.after, x.amount});
    },
    [&context](const Readmit& x) {
      if (x.job == context.job_id)
        context.incarnation = x.incarnation;
    },
    std::move(own)...,
  };
}

} // namespace troupe
