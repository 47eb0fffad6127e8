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
    return {id_, sender_, request_};
  }
  /// The number of the request that is being answered.
  uint64_t current_request() const { return request_; }
  template <class Handler>
  void set_default_handler(Handler handler) {
    on_any_ = std::move(handler);
  }
  template <class To, class Timeout, class Message>
  asked request(To&& to, Timeout&& deadline, Message&& message) {
    if (id_of(to) == 0)
      return {};
    auto letter = sim::letter(std::forward<Message>(message));
    letter.request = ++asked_;
    sim::Runtime::get().send(id_, id_of(to), letter);
    return {this, asked_, microseconds(deadline)};
  }
  template <class To, class Timeout, class Host, class Port>
  dialled
  request(To&&, Timeout&& deadline, const connect_atom&, Host&&, Port&& port) {
    return {id_, port, microseconds(deadline)};
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
  /// Once the answer to request `number` has come, an error, or too late.
  void await(uint64_t number, uint64_t deadline_us,
             std::function<void(const void*)> then,
             std::function<void(const error&)> failed);
  void begin(caf::behavior behavior) { behavior_ = std::move(behavior); }

private:
  struct Awaited {
    uint64_t number;
    std::function<void(const void*)> then;
    std::function<void(const error&)> failed;
  };
  bool is_answer(const sim::Letter& letter);
  template <class Period>
  static uint64_t microseconds(const Period& time) {
    return static_cast<uint64_t>(
      std::chrono::duration_cast<std::chrono::microseconds>(time).count());
  }

  actor_system& system_;
  sim::Address id_;
  sim::Address sender_ = 0;
  uint64_t request_ = 0;
  bool quits_ = false;
  error reason_;
  caf::behavior behavior_;
  std::function<void(const down_msg&)> on_down_;
  std::function<skippable_result(event_based_actor*, message&)> on_any_;
  mailbox_element element_;
  std::vector<Awaited> awaited_;
  uint64_t asked_ = 0;
};

} // namespace caf
