#pragma once

#include "tests/sim/stand_in/caf/behavior.hpp"

#include <chrono>
#include <memory>
#include <string>
#include <utility>
#include <vector>

/// Stands in for CAF's actors.
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
  strong_actor_ptr ctrl() const { return {{id_}}; }
  void* context() const { return nullptr; }
  const mailbox_element* current_mailbox_element() const { return &element_; }

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
  template <class To>
  void demonitor(const To& to) {
    sim::Runtime::get().demonitor(id_, id_of(to));
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
  template <class Handler>
  void set_default_handler(Handler handler) {
    on_any_ = std::move(handler);
  }
  template <class To, class Timeout, class Message>
  asked request(To&& to, Timeout&& deadline, Message&& message) {
    if (id_of(to) == 0)
      return {};
    send(to, std::forward<Message>(message));
    return {this, id_of(to),
            static_cast<uint64_t>(
              std::chrono::duration_cast<std::chrono::microseconds>(deadline)
                .count())};
  }
  template <class To, class Timeout, class Host, class Port>
  dialled request(To&&, Timeout&&, const connect_atom&, Host&&, Port&&) {
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
  /// Once `from` has sent a value of that type, or an error, or too late.
  void await(sim::Address from, const sim::Type* type, uint64_t deadline_us,
             std::function<void(const void*)> then,
             std::function<void(const error&)> failed);
  void begin(caf::behavior behavior) { behavior_ = std::move(behavior); }

private:
  struct Awaited {
    uint64_t number;
    sim::Address from;
    const sim::Type* type;
    std::function<void(const void*)> then;
    std::function<void(const error&)> failed;
  };
  bool is_answer(const sim::Letter& letter);

  actor_system& system_;
  sim::Address id_;
  sim::Address sender_ = 0;
  bool quits_ = false;
  error reason_;
  caf::behavior behavior_;
  std::function<void(const down_msg&)> on_down_;
  std::function<skippable_result(event_based_actor*, message&)> on_any_;
  mailbox_element element_;
  std::vector<Awaited> awaited_;
  uint64_t asked_ = 0;
};

template <class Then, class Value, class Failed>
void asked::await(Then then, void (Then::*)(const Value&) const,
                  Failed failed) const {
  self->await(
    whom, sim::type_of<Value>(), deadline_us,
    [then = std::move(then)](const void* value) {
      then(*static_cast<const Value*>(value));
    },
    std::move(failed));
}

template <class... Signatures>
typed_actor<Signatures...>::typed_actor(event_based_actor* self)
  : handle{self->id()} {}

template <class T>
void behavior::answer(event_based_actor& self, result<T> given) {
  if constexpr (!std::is_void_v<T>)
    given.answer(self.id(), self.current_sender().id);
}

} // namespace caf
