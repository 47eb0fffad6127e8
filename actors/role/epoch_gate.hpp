#pragma once

#include "actors/role/context.hpp"

#include <chrono>
#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace troupe {

/// The epoch a role is in (PROTOCOL 14):
///
///   shut --propose--> sealing --enter, open--> active --propose--> sealing …
///
/// Between enter and open peers are reached, which takes a while.
/// Peers may be active before this role is: what carries the epoch that is
/// being sealed waits for it; what carries any other is dropped.
/// Source: Birman and Joseph, "Exploiting virtual synchrony in distributed
/// systems", SOSP 1987, for views that begin once all who stay are done with
/// the one before.
class EpochGate {
public:
  /// Leaves the old epoch. False: the proposal is not newer, nothing changes.
  bool propose(const Fence& fence) {
    if (fence.job == newest_.job && !fence.is_after(newest_))
      return false;
    active_ = {};
    newest_ = fence;
    entered_ = false;
    early_.clear();
    return true;
  }
  /// It is the newest epoch, and not open yet: sealed, or entered.
  bool is_pending(const Fence& fence) const {
    return fence == newest_ && active_ != newest_;
  }
  /// Its activation has come. False: it is of another epoch, or came before:
  /// peers are reached once an epoch, and form one group.
  bool enter(const Fence& fence) {
    return is_pending(fence) && !std::exchange(entered_, true);
  }
  /// The sealed epoch is active from here on; replay() when the role is ready.
  void open() { active_ = newest_; }
  void replay() {
    for (const auto& message : std::exchange(early_, {}))
      message();
  }

  bool is_active() const { return active_.job != 0; }
  bool is_active(const Fence& fence) const {
    return is_active() && fence == active_;
  }
  const Fence& active() const { return active_; }
  /// Of the epoch that is being sealed, or that was sealed last.
  const Fence& newest() const { return newest_; }

  /// Calls then() now, or once the epoch of `fence` is active, or never.
  template <class Then>
  void admit(const Fence& fence, Then then) {
    if (is_active(fence))
      then();
    else if (fence.job != 0 && is_pending(fence))
      early_.push_back(std::move(then));
  }

private:
  Fence active_; ///< job 0: none
  Fence newest_;
  bool entered_ = false; ///< the activation of newest_ has come
  std::vector<std::function<void()>> early_;
};

/// A peer that died brings the next epoch by itself. With one that lives, what
/// was under way is lost: after a while the coordinator is asked for the next
/// epoch, in which both link again and the missing is sent again (PROTOCOL
/// 17). `gate` and `context` must live as long as the actor.
template <class Pointer>
void ask_for_links(Pointer self, const RoleContext& context,
                   const EpochGate& gate, RoleId peer, std::string why) {
  const auto fence = gate.newest();
  Completion later{[self, &context, &gate, fence, peer, why = std::move(why)] {
    if (gate.is_active(fence) || gate.is_pending(fence))
      self->send(context.coordinator,
                 LinkLost{fence,
                          context.role,
                          "links to " + to_string(peer) + " again: " + why,
                          {peer}});
  }};
  self->delayed_send(self, std::chrono::seconds{1}, std::move(later));
}

} // namespace troupe
