#pragma once

#include "tests/sim/stand_in/caf/handle.hpp"

#include <functional>
#include <optional>
#include <type_traits>
#include <utility>
#include <vector>

/// Stands in for CAF's messages, their handlers and answers.
namespace caf {

// --- messages ---------------------------------------------------------------

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
struct connect_atom {};
inline constexpr connect_atom connect_atom_v{};

/// The answer to a request, to whoever asked.
template <class T>
class typed_response_promise {
public:
  typed_response_promise() = default;
  typed_response_promise(sim::Address from, sim::Address to)
    : from_(from), to_(to) {}
  void deliver(T value) const {
    sim::Runtime::get().send(from_, to_, sim::letter(std::move(value)));
  }
  void deliver(error why) const {
    sim::Runtime::get().send(from_, to_, sim::letter(std::move(why)));
  }

private:
  sim::Address from_ = 0, to_ = 0;
};

template <class T>
class result {
public:
  result(T value) : value_(std::move(value)) {}   // NOLINT
  result(error why) : failure_(std::move(why)) {} // NOLINT
  result(const typed_response_promise<T>&) {}     // NOLINT: it comes later
  void answer(sim::Address from, sim::Address to) {
    typed_response_promise<T> now{from, to};
    if (value_)
      now.deliver(std::move(*value_));
    else if (failure_)
      now.deliver(failure_);
  }

private:
  std::optional<T> value_;
  error failure_;
};
template <>
class result<void> {};

/// An answer without a value comes after a way there and back. Others are not
/// needed: roles reach one another by links here, nobody dials.
struct asked {
  sim::Address self = 0; ///< 0: nobody was there
  template <class Then, class Failed>
  void then(Then then, Failed) const {
    if constexpr (std::is_invocable_v<Then>)
      if (self != 0)
        sim::Runtime::get().answer(self, std::move(then));
  }
};

// --- behaviours -------------------------------------------------------------

class behavior {
public:
  behavior() = default;
  template <class... Handlers>
  requires(sizeof...(Handlers) > 1)
    behavior(Handlers... handlers) { // NOLINT: as CAF's
    (add(std::move(handlers), &Handlers::operator()), ...);
  }
  /// Returns whether there is a handler.
  bool operator()(event_based_actor& self, const sim::Letter& letter) const;

private:
  using Handle =
    std::function<void(event_based_actor& self, const void* value)>;

  template <class Handler, class Result, class Message>
  void add(Handler handler, Result (Handler::*)(Message) const) {
    using Value = std::remove_cvref_t<Message>;
    handlers_.emplace_back(
      sim::type_of<Value>(),
      [handler = std::move(handler)]([[maybe_unused]] event_based_actor& self,
                                     const void* value) {
        const auto& message = *static_cast<const Value*>(value);
        if constexpr (std::is_void_v<Result>)
          handler(message);
        else
          answer(self, handler(message));
      });
  }
  template <class T>
  static void answer(event_based_actor& self, result<T> given);

  std::vector<std::pair<const sim::Type*, Handle>> handlers_;
};

} // namespace caf
