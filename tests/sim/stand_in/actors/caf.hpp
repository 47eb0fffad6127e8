#pragma once

#include "tests/sim/runtime.hpp"

#include <cstddef>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <type_traits>
#include <utility>

/// Stands in for CAF's core when the roles of actors/ are compiled for the
/// simulator: the same names, as far as they are used, carried out by
/// sim::Runtime in one thread and in virtual time. A handle is an address; a
/// message is a shared value and its type.
namespace caf {

namespace sim = troupe::sim;

enum class sec : uint8_t {
  none,
  invalid_argument,
  incompatible_versions,
  runtime_error,
  remote_lookup_failed,
  request_receiver_down,
  request_timeout,
  unexpected_message,
  unsupported_operation,
};
enum class exit_reason : uint8_t { normal, kill, user_shutdown };

class error {
public:
  error() = default;
  error(sec) : failed_(true) {}                                   // NOLINT
  error(exit_reason why) : failed_(why != exit_reason::normal) {} // NOLINT
  error(sec, std::string line) : failed_(true), line_(std::move(line)) {}
  explicit operator bool() const { return failed_; }
  const std::string& line() const { return line_; }

private:
  bool failed_ = false;
  std::string line_;
};
inline error make_error(sec code, std::string line = {}) {
  return {code, std::move(line)};
}
inline std::string to_string(const error& why) {
  return why.line();
}

// --- handles ----------------------------------------------------------------

class event_based_actor;
class behavior;
using scheduled_actor = event_based_actor;

struct handle {
  sim::Address id = 0;
  explicit operator bool() const { return id != 0; }
  bool operator!() const { return id == 0; }
  friend auto operator<=>(const handle&, const handle&) = default;
};
struct actor_addr : handle {};
struct strong_actor_ptr : handle {};
struct actor : handle {};
struct node_id {};

template <class... Signatures>
struct typed_actor : handle {
  using pointer = event_based_actor*;
  using behavior_type = behavior;
  template <class... More>
  using extend = typed_actor<Signatures..., More...>;
  template <class State>
  struct stateful_impl {
    using handle_type = typed_actor;
    using state_type = State;
  };

  typed_actor() = default;
  typed_actor(std::nullptr_t) {}        // NOLINT: as CAF's
  typed_actor(event_based_actor* self); // NOLINT: as CAF's
  template <class... Others>
  typed_actor(const typed_actor<Others...>& other) // NOLINT: as CAF's
    : handle{other.id} {}
  actor_addr address() const { return {{this->id}}; }
};

inline sim::Address id_of(const handle& x) {
  return x.id;
}
sim::Address id_of(const event_based_actor* self);

template <class To, class From>
To actor_cast(const From& from) {
  To to;
  static_cast<handle&>(to).id = id_of(from);
  return to;
}

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
  /// Roles reach others by links here: nobody dials.
  struct Asked {
    template <class Then, class Failed>
    void then(Then, Failed) {}
  };
  template <class... Any>
  Asked request(Any&&...) {
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

// --- what serialisation names -----------------------------------------------

using std::byte;
template <class T>
using span = std::span<T>;
template <class T>
std::span<T> make_span(T* data, size_t count) {
  return {data, count};
}
class binary_serializer;
class binary_deserializer;

} // namespace caf

#define CAF_BEGIN_TYPE_ID_BLOCK(name, first)
#define CAF_ADD_TYPE_ID(name, type)
#define CAF_END_TYPE_ID_BLOCK(name)
#define CAF_ALLOW_UNSAFE_MESSAGE_TYPE(type) static_assert(true);
