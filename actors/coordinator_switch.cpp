#include "actors/coordinator_state.hpp"

// Switching between synchronous and asynchronous while the job runs.

namespace troupe {

caf::result<Note> CoordinatorState::on(const SwitchConsistency&) {
  return caf::make_error(caf::sec::invalid_argument, "not available yet");
}

} // namespace troupe
