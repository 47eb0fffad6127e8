#pragma once

#include "tests/sim/stand_in/caf/behavior.hpp"

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <utility>

/// Stands in for CAF's actors and their systems.
namespace caf {

// --- actors -----------------------------------------------------------------

class actor_system;

class event_based_actor {
public:
  using behavior_type = caf::behavior;

  event_based_actor(actor_system& system, sim::Address id)
    : system_(system), id_(id) {}
  virtual ~event_based_actor() = default;

  actor_system& system() const { return system_; }
  sim::Address id() const { return id_; }
  actor_addr address() const { return {{id_}}; }
  strong_actor_ptr current_sender() const { return {{sender_}}; }

  template <class To, class Message>
  void send(const To& to, Message&& message) {
    sim::Runtime::get().send(id_, id_of(to),
                             sim::letter(std::forward<Message>(message)));
  }
  template <class To, class Rep, class Period, class Message>
  void delayed_send(const To& to, std::chrono::duration<Rep, Period> delay,
                    Message&& message) {
    sim::Runtime::get().send_later(
      id_, id_of(to),
      std::chrono::duration_cast<std::chrono::microseconds>(delay).count(),
      sim::letter(std::forward<Message>(message)));
  }
  template <class To>
  void monitor(const To& to) {
    sim::Runtime::get().monitor(id_, id_of(to));
  }
  template <class Handler>
  void set_down_handler(Handler handler) {
    on_down_ = std::move(handler);
  }
  template <class Handler>
  void set_error_handler(Handler) {}
  template <class Handler>
  void set_exit_handler(Handler) {}
  void quit(const error& why = {}) {
    quits_ = true;
    reason_ = why;
  }
  template <class T>
  typed_response_promise<T> make_response_promise() {
    return {id_, sender_};
  }
  template <class To, class Timeout, class Message>
  asked request(To&& to, Timeout&&, Message&& message) {
    if (id_of(to) == 0)
      return {};
    send(to, std::forward<Message>(message));
    return {id_};
  }
  template <class... Any>
  asked request(Any&&...) {
    return {};
  }

  // --- the runtime's side ---------------------------------------------------
  void receive(sim::Address sender, const sim::Letter& letter);
  void down(sim::Address source, const std::string& why);
  bool quits() const { return quits_; }
  const error& reason() const { return reason_; }
  void begin(caf::behavior behavior) { behavior_ = std::move(behavior); }

private:
  actor_system& system_;
  sim::Address id_;
  sim::Address sender_ = 0;
  bool quits_ = false;
  error reason_;
  caf::behavior behavior_;
  std::function<void(const down_msg&)> on_down_;
};

template <class... Signatures>
typed_actor<Signatures...>::typed_actor(event_based_actor* self)
  : handle{self->id()} {}

template <class T>
void behavior::answer(event_based_actor& self, result<T> given) {
  if constexpr (!std::is_void_v<T>)
    given.answer(self.id(), self.current_sender().id);
}

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
