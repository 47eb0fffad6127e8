#pragma once

#include "tests/sim/stand_in/caf/actor.hpp"

#include <memory>
#include <optional>
#include <string>
#include <utility>

/// Stands in for CAF's actor systems.
namespace caf {

// --- what needs actors ------------------------------------------------------

template <class Then, class Value, class Failed>
void asked::await(Then then, void (Then::*)(Value&) const,
                  Failed failed) const {
  self->await(
    number, deadline_us,
    [then = std::move(then)](const void* value) {
      if constexpr (std::is_const_v<Value>) {
        then(*static_cast<Value*>(value));
      } else {
        auto own = *static_cast<const Value*>(value);
        then(own);
      }
    },
    std::move(failed));
}

template <class... Signatures>
typed_actor<Signatures...>::typed_actor(event_based_actor* self)
  : handle{self->id()} {}

template <class T>
void behavior::answer(event_based_actor& self, result<T> given) {
  if constexpr (!std::is_void_v<T>)
    given.answer(self.id(), self.current_sender().id, self.current_request());
}

// --- systems ----------------------------------------------------------------

/// Of a state that is no typed actor's.
template <class State, class Base>
struct stateful_actor {
  using handle_type = actor;
  using state_type = State;
};

enum spawn_options { no_spawn_options, detached };

/// One for each simulated process.
class actor_system {
public:
  explicit actor_system(uint32_t process) : process_(process) {}
  uint32_t process() const { return process_; }

  template <class Implementation, spawn_options = no_spawn_options,
            class... Arguments>
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

private:
  uint32_t process_;
};

template <class Message>
void anon_send(const handle& to, Message&& message) {
  sim::Runtime::get().send(to.id, to.id,
                           sim::letter(std::forward<Message>(message)));
}
template <class First, class Second>
void anon_send(const handle& to, First&& first, Second&& second) {
  anon_send(to,
            std::pair<std::remove_cvref_t<First>, std::remove_cvref_t<Second>>{
              std::forward<First>(first), std::forward<Second>(second)});
}

} // namespace caf
