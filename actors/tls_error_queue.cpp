#include "actors/tls_error_queue.hpp"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <sys/socket.h>

#include <atomic>

// CAF 0.18.7 asks SSL_get_error() without emptying OpenSSL's error queue
// first. The queue belongs to the thread, and all connections of a process
// share one: when a peer is killed, the error of its connection is still there
// when the next, healthy one merely has nothing to read, and that one is closed
// too (seen: kill -9 of a worker cut the coordinator off from everybody). The
// linker sends CAF's calls here (--wrap, set by actors/CMakeLists.txt).

namespace {

std::atomic<bool> guarded{false};

void empty_queue() {
  ERR_clear_error();
  guarded.store(true, std::memory_order_relaxed);
}

/// CAF's shutdown waits until all that is on its way has been taken: from a
/// host that is cut off nothing comes back, not even a refusal, so it would
/// wait for as long as the kernel tries, a quarter of an hour.
void bound_patience(SSL* session) {
  const unsigned int most_ms = 10'000;
  setsockopt(SSL_get_fd(session), IPPROTO_TCP, TCP_USER_TIMEOUT, &most_ms,
             sizeof most_ms);
}

} // namespace

// Names that the linker prescribes.
// NOLINTBEGIN(bugprone-reserved-identifier)
extern "C" {

int __real_SSL_read(SSL* session, void* bytes, int count);
int __real_SSL_write(SSL* session, const void* bytes, int count);
int __real_SSL_connect(SSL* session);
int __real_SSL_accept(SSL* session);

int __wrap_SSL_read(SSL* session, void* bytes, int count) {
  empty_queue();
  return __real_SSL_read(session, bytes, count);
}

int __wrap_SSL_write(SSL* session, const void* bytes, int count) {
  empty_queue();
  return __real_SSL_write(session, bytes, count);
}

int __wrap_SSL_connect(SSL* session) {
  empty_queue();
  bound_patience(session);
  return __real_SSL_connect(session);
}

int __wrap_SSL_accept(SSL* session) {
  empty_queue();
  bound_patience(session);
  return __real_SSL_accept(session);
}

} // extern "C"
// NOLINTEND(bugprone-reserved-identifier)

namespace troupe {

bool tls_error_queue_is_guarded() {
  return guarded.load(std::memory_order_relaxed);
}

} // namespace troupe
