#pragma once

#include "tests/sim/stand_in/caf/handle.hpp"

#include <utility>

/// Stands in for CAF's messages.
namespace caf {

struct down_msg {
  actor_addr source;
  error reason;
};
struct exit_msg {
  actor_addr source;
  error reason;
};
struct tick_atom {};
inline constexpr tick_atom tick_atom_v{};
struct timeout_atom {};
inline constexpr timeout_atom timeout_atom_v{};
struct connect_atom {};
inline constexpr connect_atom connect_atom_v{};

/// A message of any type.
class message {
public:
  explicit message(sim::Letter letter) : letter_(std::move(letter)) {}
  template <class T>
  bool match_elements() const {
    return letter_.as<T>() != nullptr;
  }
  template <class T>
  const T& get_as(size_t) const {
    return *letter_.as<T>();
  }
  const sim::Type* types() const { return letter_.type; }
  const sim::Letter& letter() const { return letter_; }

private:
  sim::Letter letter_;
};
template <class T>
message make_message(T value) {
  return message{sim::letter(std::move(value))};
}
/// A letter knows itself which request it is.
struct message_id {
  bool is_request() const { return false; }
  message_id response_id() const { return {}; }
};
inline message_id make_message_id() {
  return {};
}
struct mailbox_element {
  strong_actor_ptr sender;
  message_id mid;
};
inline void strong_actor_ptr::enqueue(const strong_actor_ptr& sender,
                                      message_id, const message& what,
                                      void*) const {
  sim::Runtime::get().send(sender.id, id, what.letter());
}
template <class>
struct delegated {};
struct skippable_result {
  template <class T>
  skippable_result(T) {} // NOLINT: as CAF's
};

} // namespace caf
