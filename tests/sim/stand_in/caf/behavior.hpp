#pragma once

#include "tests/sim/stand_in/caf/answers.hpp"

#include <functional>
#include <type_traits>
#include <utility>
#include <vector>

/// Stands in for the handlers of CAF's messages.
namespace caf {

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
        auto&& message = as<Message>(static_cast<const Value*>(value));
        if constexpr (std::is_void_v<Result>)
          handler(message);
        else
          answer(self, handler(message));
      });
  }
  /// Of two values.
  template <class Handler, class A, class B>
  void add(Handler handler, void (Handler::*)(A, B) const) {
    using Both = std::pair<std::remove_cvref_t<A>, std::remove_cvref_t<B>>;
    handlers_.emplace_back(sim::type_of<Both>(),
                           [handler = std::move(handler)](event_based_actor&,
                                                          const void* value) {
                             auto both = *static_cast<const Both*>(value);
                             handler(both.first, both.second);
                           });
  }
  /// A handler that changes its message has one of its own.
  template <class Message, class Value>
  static decltype(auto) as(const Value* value) {
    if constexpr (
      std::is_lvalue_reference_v<
        Message> && !std::is_const_v<std::remove_reference_t<Message>>)
      return Value{*value};
    else
      return (*value);
  }
  template <class T>
  static void answer(event_based_actor& self, result<T> given);

  std::vector<std::pair<const sim::Type*, Handle>> handlers_;
};

} // namespace caf
