#pragma once

#include "tests/sim/stand_in/caf/message.hpp"

#include <functional>
#include <optional>
#include <set>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

/// Stands in for the handlers of CAF's messages, and for answers.
namespace caf {

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

/// What a request comes back with: nothing, after a way there and back, or one
/// value of the type that `then` takes.
struct asked {
  event_based_actor* self = nullptr; ///< null: nobody was there
  sim::Address whom = 0;
  uint64_t deadline_us = 0;

  template <class Then, class Failed>
  void then(Then then, Failed failed) const {
    if (self == nullptr)
      return;
    if constexpr (std::is_invocable_v<Then>)
      sim::Runtime::get().answer(id_of(self), std::move(then));
    else
      await(std::move(then), &Then::operator(), std::move(failed));
  }

private:
  template <class Then, class Value, class Failed>
  void
  await(Then then, void (Then::*)(const Value&) const, Failed failed) const;
};

/// Of a way to a coordinator.
struct dialled {
  sim::Address self = 0;
  template <class Then, class Failed>
  void then(Then then, Failed failed) const {
    sim::Runtime::get().dial(self, [then, failed](sim::Address found) {
      strong_actor_ptr there{{found}};
      if (found != 0)
        then(node_id{}, there, std::set<std::string>{});
      else
        failed(error{sec::runtime_error, "connection refused"});
    });
  }
};

// --- behaviours -------------------------------------------------------------

class behavior {
public:
  behavior() = default;
  template <class... Handlers>
  requires((sizeof...(Handlers) > 0)
           && (!std::is_same_v<Handlers, behavior> && ...))
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
