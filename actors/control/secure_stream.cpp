#include "actors/control/secure_stream.hpp"

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <utility>

namespace troupe {
namespace {

using State = SecureBytes::State;

int bounded(size_t size) {
  return static_cast<int>(std::min<size_t>(size, INT_MAX));
}

} // namespace

SecureBytes::SecureBytes(TlsSession session,
                         std::shared_ptr<PendingConnection> pending,
                         Broken broken)
  : session_(std::move(session)),
    pending_(std::move(pending)),
    connecting_(pending_ != nullptr),
    broken_(std::move(broken)) {}

/// What a call of OpenSSL that did nothing asks for.
State SecureBytes::judge(int result) {
  const int system = errno;
  const auto asked = SSL_get_error(session_.get(), result);
  const bool waits = asked == SSL_ERROR_WANT_READ
                     || asked == SSL_ERROR_WANT_WRITE;
  if (pending_ && !waits)
    std::exchange(pending_, nullptr)->failed([&](const Endpoint& where) {
      return reach_of_failure(where, session_.get(),
                              asked == SSL_ERROR_SYSCALL ? system : 0);
    });
  switch (asked) {
    case SSL_ERROR_WANT_READ:
      return State::want_read;
    case SSL_ERROR_WANT_WRITE:
      return State::success; // the socket is polled
    case SSL_ERROR_SSL:
      if (broken_
          && ERR_GET_REASON(ERR_peek_error())
               != SSL_R_UNEXPECTED_EOF_WHILE_READING)
        std::exchange(broken_, nullptr)("TLS: " + take_tls_error());
      return State::failure;
    default:
      return State::failure;
  }
}

/// Errors are in a queue of the thread, which all connections share: without
/// emptying it first, that of a peer that was killed would end the next healthy
/// connection that merely has nothing to read.
State SecureBytes::handshake() {
  ERR_clear_error();
  const int result = SSL_do_handshake(session_.get());
  if (result != 1)
    return judge(result);
  connecting_ = false;
  if (pending_)
    pending_->shown();
  return State::indeterminate; // done
}

State SecureBytes::read_some(size_t& result, Socket, void* bytes, size_t size) {
  result = 0;
  if (connecting_)
    if (const auto state = handshake(); state != State::indeterminate)
      return state;
  if (size == 0)
    return State::indeterminate;
  ERR_clear_error();
  const int got = SSL_read(session_.get(), bytes, bounded(size));
  if (got <= 0)
    return judge(got) == State::failure ? State::failure : State::success;
  result = static_cast<size_t>(got);
  if (pending_)
    std::exchange(pending_, nullptr)->heard();
  return State::success;
}

State SecureBytes::write_some(size_t& result, Socket, const void* bytes,
                              size_t size) {
  result = 0;
  if (connecting_)
    if (const auto state = handshake(); state != State::indeterminate)
      return state;
  if (size == 0)
    return State::indeterminate;
  ERR_clear_error();
  const int sent = SSL_write(session_.get(), bytes, bounded(size));
  if (sent <= 0)
    return judge(sent) == State::failure ? State::failure : State::success;
  result = static_cast<size_t>(sent);
  return State::success;
}

bool SecureBytes::must_read_more(Socket, size_t threshold) {
  return static_cast<size_t>(SSL_pending(session_.get())) >= threshold;
}

SecureScribe::SecureScribe(caf::io::network::default_multiplexer& sockets,
                           VettedConnection connection, Environment environment)
  : scribe(caf::io::network::conn_hdl_from_socket(connection.socket.get())),
    session_(connection.session.get()),
    socket_(connection.socket.get()),
    stream_(sockets, connection.socket.release(),
            SecureBytes{std::move(connection.session), environment.pending,
                        environment.broken}),
    environment_(std::move(environment)) {
  if (!environment_.pending)
    entries_ = environment_.tls->enter(session_, socket_);
}

SecureScribe::~SecureScribe() {
  entries_.clear();
  if (environment_.pending)
    environment_.pending->ended();
}

/// Headers and payloads come one by one, as the broker asks for them.
bool SecureScribe::consume(caf::execution_unit* on, const void* bytes,
                           size_t size) {
  if (cut_off_)
    return true; // the socket's end is on its way
  if (!check_) {
    check_.emplace(peer_of(session_), *environment_.nodes);
    if (entries_.empty())
      entries_ = environment_.tls->enter(session_, socket_);
  }
  rd_buf().resize(size);
  if (const auto why = check_->take(on, rd_buf()); !why.empty()) {
    cut_off_ = true;
    if (environment_.broken)
      environment_.broken("cut off: " + why);
    ::shutdown(stream_.fd(), SHUT_RDWR);
    return true;
  }
  return scribe::consume(on, bytes, size);
}

void SecureScribe::configure_read(caf::io::receive_policy::config config) {
  stream_.configure_read(config);
  if (std::exchange(launched_, true))
    return;
  stream_.start(this);
  // A handshake that is to be made begins by writing.
  stream_.force_empty_write(this);
}

void SecureScribe::ack_writes(bool enable) {
  stream_.ack_writes(enable);
}

void SecureScribe::graceful_shutdown() {
  stream_.graceful_shutdown();
  detach(&stream_.backend(), false);
}

std::string SecureScribe::addr() const {
  const auto found = caf::io::network::remote_addr_of_fd(stream_.fd());
  return found ? *found : std::string{};
}

uint16_t SecureScribe::port() const {
  const auto found = caf::io::network::remote_port_of_fd(stream_.fd());
  return found ? *found : uint16_t{0};
}

} // namespace troupe
