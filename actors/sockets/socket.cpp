#include "actors/sockets/socket.hpp"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>

namespace troupe {

LinkSocket::LinkSocket(int descriptor, ssl_st* session)
  : descriptor_(descriptor), session_(session) {}

LinkSocket::~LinkSocket() {
  kept_.clear();
  if (session_ != nullptr)
    SSL_free(session_);
  ::close(descriptor_);
}

LinkSocket::Io LinkSocket::send(std::span<const iovec> pieces) {
  if (session_ == nullptr) {
    msghdr message{};
    message.msg_iov = const_cast<iovec*>(pieces.data());
    message.msg_iovlen = std::min<size_t>(pieces.size(), IOV_MAX);
    const auto sent = ::sendmsg(descriptor_, &message,
                                MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent >= 0)
      return {static_cast<size_t>(sent), false};
    return {0, errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR};
  }
  Io total;
  for (const auto& piece : pieces) {
    if (piece.iov_len == 0)
      continue;
    size_t sent = 0;
    ERR_clear_error();
    if (SSL_write_ex(session_, piece.iov_base, piece.iov_len, &sent) != 1) {
      const auto why = SSL_get_error(session_, 0);
      total.down = why != SSL_ERROR_WANT_WRITE && why != SSL_ERROR_WANT_READ;
      return total;
    }
    total.bytes += sent;
    if (sent < piece.iov_len)
      return total;
  }
  return total;
}

LinkSocket::Io LinkSocket::receive(void* into, size_t size) {
  if (session_ == nullptr) {
    const auto got = ::recv(descriptor_, into, size, MSG_DONTWAIT);
    if (got > 0)
      return {static_cast<size_t>(got), false};
    return {0,
            got == 0
              || (errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR)};
  }
  size_t got = 0;
  ERR_clear_error();
  if (SSL_read_ex(session_, into, size, &got) == 1)
    return {got, false};
  const auto why = SSL_get_error(session_, 0);
  return {0, why != SSL_ERROR_WANT_READ && why != SSL_ERROR_WANT_WRITE};
}

void LinkSocket::keep_queue_short() {
  constexpr int bytes = 256 << 10;
  setsockopt(descriptor_, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &bytes, sizeof bytes);
}

void LinkSocket::cut() {
  ::shutdown(descriptor_, SHUT_RDWR);
}

void tune_stream(int descriptor) {
  // A stream that is no TCP connection refuses what does not concern it.
  const int on = 1;
  ::setsockopt(descriptor, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  // Who asks for so much at once gets a window that holds it, and keeps it:
  // without, senders wait for it to open. 1 MiB between two 292 us instead of
  // 556. SO_RCVBUF would not open it, and end the kernel's own tuning.
  for (int bytes : {1 << 20, 1})
    ::setsockopt(descriptor, SOL_SOCKET, SO_RCVLOWAT, &bytes, sizeof bytes);
}

} // namespace troupe
