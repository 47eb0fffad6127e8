#pragma once

#include "tests/sim/runtime.hpp"

#include <compare>
#include <cstddef>
#include <string>
#include <utility>

/// Stands in for CAF's errors and handles: a handle is an address.
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
  error(sec code) : failed_(true), code_(code) {}                 // NOLINT
  error(exit_reason why) : failed_(why != exit_reason::normal) {} // NOLINT
  error(sec code, std::string line)
    : failed_(true), code_(code), line_(std::move(line)) {}
  explicit operator bool() const { return failed_; }
  const std::string& line() const { return line_; }
  friend bool operator==(const error& why, sec code) {
    return why.code_ == code;
  }

private:
  bool failed_ = false;
  sec code_ = sec::none;
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
struct actor_addr : handle {
  actor_addr& operator=(std::nullptr_t) {
    id = 0;
    return *this;
  }
};
class message;
struct message_id;
struct strong_actor_ptr : handle {
  strong_actor_ptr& operator=(std::nullptr_t) {
    id = 0;
    return *this;
  }
  const strong_actor_ptr* operator->() const { return this; }
  void enqueue(const strong_actor_ptr& sender, message_id, const message& what,
               void* context) const;
};
struct weak_actor_ptr : handle {
  strong_actor_ptr lock() const { return {{id}}; }
};
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

} // namespace caf
