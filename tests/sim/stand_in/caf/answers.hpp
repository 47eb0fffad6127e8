#pragma once

#include "tests/sim/stand_in/caf/message.hpp"

#include <functional>
#include <optional>
#include <set>
#include <string>
#include <type_traits>
#include <utility>

/// Stands in for CAF's requests and their answers.
namespace caf {

/// The answer to a request, to whoever asked.
template <class T>
class typed_response_promise {
public:
  typed_response_promise() = default;
  typed_response_promise(sim::Address from, sim::Address to, uint64_t request)
    : from_(from), to_(to), request_(request) {}
  void deliver(T value) const { say(sim::letter(std::move(value))); }
  void deliver(error why) const { say(sim::letter(std::move(why))); }

private:
  void say(sim::Letter letter) const {
    letter.answers = request_;
    sim::Runtime::get().send(from_, to_, std::move(letter));
  }
  sim::Address from_ = 0, to_ = 0;
  uint64_t request_ = 0;
};

template <class T>
class result {
public:
  result(T value) : value_(std::move(value)) {}   // NOLINT
  result(error why) : failure_(std::move(why)) {} // NOLINT
  result(const typed_response_promise<T>&) {}     // NOLINT: it comes later
  void answer(sim::Address from, sim::Address to, uint64_t request) {
    typed_response_promise<T> now{from, to, request};
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
  uint64_t number = 0;
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
  void await(Then then, void (Then::*)(Value&) const, Failed failed) const;
};

/// Of a way to who listens at a port.
struct dialled {
  sim::Address self = 0;
  uint16_t port = 0;
  uint64_t deadline_us = 0;
  template <class Then, class Failed>
  void then(Then then, Failed failed) const {
    sim::Runtime::get().dial(
      self, port, deadline_us, [then, failed](sim::Address found) {
        strong_actor_ptr there{{found}};
        if (found != 0)
          then(node_id{}, there, std::set<std::string>{});
        else
          failed(error{sec::runtime_error, "connection refused"});
      });
  }
};

} // namespace caf
