#pragma once

#include "actors/wire/caf.hpp"

namespace troupe {

/// Ends an actor where its owner's scope ends: an actor system waits for all of
/// its actors.
struct EndsWithScope {
  caf::strong_actor_ptr actor;

  explicit EndsWithScope(caf::strong_actor_ptr whom = nullptr)
    : actor(std::move(whom)) {}
  EndsWithScope(const EndsWithScope&) = delete;
  EndsWithScope& operator=(const EndsWithScope&) = delete;
  ~EndsWithScope() {
    if (actor)
      caf::anon_send_exit(actor, caf::exit_reason::user_shutdown);
  }
};

} // namespace troupe
