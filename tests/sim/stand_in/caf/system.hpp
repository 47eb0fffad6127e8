#pragma once

#include "tests/sim/stand_in/caf/actor.hpp"

#include <memory>
#include <optional>
#include <string>
#include <utility>

/// Stands in for CAF's actor systems.
namespace caf {

/// Of a state that is no typed actor's.
template <class State, class Base>
struct stateful_actor {
  using handle_type = actor;
  using state_type = State;
};

/// One for each simulated process.
class actor_system {
public:
  explicit actor_system(uint32_t process) : process_(process) {}

  template <class Implementation, class... Arguments>
  typename Implementation::handle_type spawn(Arguments&&... arguments) {
    using State = typename Implementation::state_type;
    struct Actor : event_based_actor {
      using event_based_actor::event_based_actor;
      std::optional<State> state;
    };
    auto& runtime = sim::Runtime::get();
    auto made = std::make_unique<Actor>(*this, runtime.new_address(process_));
    auto* self = made.get();
    runtime.note(runtime.name(process_) + " runs a " + State::name);
    runtime.keep(process_, std::move(made));
    self->state.emplace(self, std::forward<Arguments>(arguments)...);
    self->begin(self->state->make_behavior());
    typename Implementation::handle_type out;
    out.id = self->id();
    return out;
  }

  struct Registry {
    template <class Handle>
    Handle get(const std::string&) const {
      return {};
    }
  };
  Registry registry() const { return {}; }
  struct OpensslManager {
    actor actor_handle() const { return {}; }
  };
  OpensslManager openssl_manager() const { return {}; }

private:
  uint32_t process_;
};

template <class Message>
void anon_send(const handle& to, Message&& message) {
  sim::Runtime::get().send(to.id, to.id,
                           sim::letter(std::forward<Message>(message)));
}

} // namespace caf
