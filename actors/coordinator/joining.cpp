#include "actors/coordinator/state.hpp"
#include "actors/process/steady_ms.hpp"

#include <algorithm>

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
      JobInfo info{options_.job_id, ++incarnations_, to_json(sent),
                   options_.term};
      info.sign_ms = sign_ms_;
      return info;
    });
  if (begun_ || membership_.state() != Membership::State::forming)
    return;
  const auto line = joining_.line(membership_.present(), membership_.absent(),
                                  now_ms);
  if (!line.empty())
    note(line);
}

/// The more there are, the less often each; the silence that counts as loss
/// follows, unless the user has said what it is.
void CoordinatorState::pace_signs() {
  const auto& own = job_->options;
  const auto members = membership_.present() + membership_.absent().size();
  const auto loss_ms = own.loss_ms > 0 ? own.loss_ms : options_.silence.max_ms;
  sign_ms_ = std::max(sign_ms_, sign_period_ms(members, loss_ms));
  if (own.loss_ms == 0 && own.processes && sign_ms_ > usual_sign_ms)
    silence_.raise_least(signs_before_loss * sign_ms_);
}

} // namespace troupe
