#include "actors/coordinator/state.hpp"
#include "actors/process/steady_ms.hpp"

// Whose a role's name is, and who is missing.

namespace troupe {

void CoordinatorState::look_at_joining() {
  const auto now_ms = steady_ms();
  joining_.look(
    now_ms,
    [this, now_ms](RoleId role) {
      return now_ms - silence_.silent_ms(role, now_ms);
    },
    [this](RoleId role) {
      lost_.erase(role);
      // A model file need not be where the role is.
      auto sent = job_->options;
      sent.model = job_->graph.text;
      return JobInfo{options_.job_id, ++incarnations_, to_json(sent),
                     options_.term};
    });
  if (begun_ || membership_.state() != Membership::State::forming)
    return;
  const auto line = joining_.line(membership_.present(), membership_.absent(),
                                  now_ms);
  if (!line.empty())
    note(line);
}

} // namespace troupe
