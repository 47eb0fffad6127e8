#include "actors/links/handshake.hpp"

#include "actors/links/hello.hpp"
#include "kernels/base/require.hpp"

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

namespace troupe {
namespace {

constexpr size_t length_bytes = 4;
constexpr size_t max_passed = 2;

bool would_block() {
  return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR;
}

uint32_t length_of(const std::string& in) {
  uint32_t length = 0;
  for (size_t i = 0; i < length_bytes; ++i)
    length |= uint32_t{static_cast<unsigned char>(in[i])} << (8 * i);
  return length;
}

} // namespace

Handshake::Handshake(Descriptor descriptor, TlsSession session)
  : descriptor_(std::move(descriptor)), session_(std::move(session)) {}

void Handshake::greet(std::string greeting, std::vector<Descriptor> passed) {
  kernels::require(passed.size() <= max_passed && (passed.empty() || !session_),
                   "descriptors that cannot be passed");
  out_ = std::move(greeting);
  sent_ = 0;
  passed_ = std::move(passed);
}

Handshake::State Handshake::advance() {
  return out_.empty() ? receive_some() : send_some();
}

Handshake::State Handshake::fail(std::string why, bool hopeless) {
  failure_ = std::move(why);
  hopeless_ = hopeless;
  return State::failed;
}

Handshake::State Handshake::send_some() {
  while (sent_ < out_.size()) {
    auto count = write(out_.data() + sent_, out_.size() - sent_);
    if (!count)
      return State::failed;
    if (*count == 0)
      return State::waiting;
    sent_ += *count;
  }
  out_.clear();
  passed_.clear();
  return State::sent;
}

Handshake::State Handshake::receive_some() {
  for (;;) {
    const bool head = in_.size() < length_bytes;
    size_t missing = length_bytes - in_.size();
    if (!head) {
      const auto length = length_of(in_);
      if (length > largest_greeting)
        return fail("it does not greet as a link does", true);
      missing = length_bytes + length - in_.size();
      if (missing == 0) {
        body_ = in_.substr(length_bytes);
        in_.clear();
        return State::greeted;
      }
    }
    // Never more than the greeting: what follows may be the stream's.
    std::array<char, largest_greeting + length_bytes> bytes;
    auto count = read(bytes.data(), missing);
    if (!count)
      return State::failed;
    if (*count == 0)
      return State::waiting;
    in_.append(bytes.data(), *count);
  }
}

std::optional<size_t> Handshake::judge_tls(int result) {
  const int system = errno;
  switch (SSL_get_error(session_.get(), result)) {
    case SSL_ERROR_WANT_READ:
      wants_ = EPOLLIN;
      return 0;
    case SSL_ERROR_WANT_WRITE:
      wants_ = EPOLLOUT;
      return 0;
    case SSL_ERROR_SSL: {
      const auto ended = ERR_GET_REASON(ERR_peek_error())
                         == SSL_R_UNEXPECTED_EOF_WHILE_READING;
      fail(ended ? "it closed the connection" : "TLS: " + take_tls_error(),
           !ended);
      return std::nullopt;
    }
    case SSL_ERROR_SYSCALL:
      fail(system == 0 ? "it closed the connection" : std::strerror(system));
      return std::nullopt;
    default:
      fail("it closed the connection");
      return std::nullopt;
  }
}

std::optional<size_t> Handshake::write(const char* bytes, size_t size) {
  if (session_) {
    size_t count = 0;
    ERR_clear_error();
    errno = 0;
    if (SSL_write_ex(session_.get(), bytes, size, &count) == 1)
      return count;
    return judge_tls(0);
  }
  iovec piece{const_cast<char*>(bytes), size};
  msghdr message{};
  message.msg_iov = &piece;
  message.msg_iovlen = 1;
  alignas(cmsghdr) std::array<char, CMSG_SPACE(max_passed * sizeof(int))>
    space{};
  if (!passed_.empty()) {
    message.msg_control = space.data();
    message.msg_controllen = CMSG_SPACE(passed_.size() * sizeof(int));
    auto* head = CMSG_FIRSTHDR(&message);
    head->cmsg_level = SOL_SOCKET;
    head->cmsg_type = SCM_RIGHTS;
    head->cmsg_len = CMSG_LEN(passed_.size() * sizeof(int));
    std::array<int, max_passed> numbers{};
    for (size_t i = 0; i < passed_.size(); ++i)
      numbers[i] = passed_[i].get();
    std::memcpy(CMSG_DATA(head), numbers.data(), passed_.size() * sizeof(int));
  }
  const auto count = ::sendmsg(descriptor_.get(), &message,
                               MSG_NOSIGNAL | MSG_DONTWAIT);
  if (count > 0) {
    passed_.clear(); // with the first byte
    return static_cast<size_t>(count);
  }
  wants_ = EPOLLOUT;
  if (would_block())
    return 0;
  fail(std::strerror(errno));
  return std::nullopt;
}

std::optional<size_t> Handshake::read(char* bytes, size_t size) {
  if (!session_)
    return read_passed(bytes, size);
  size_t count = 0;
  ERR_clear_error();
  errno = 0;
  if (SSL_read_ex(session_.get(), bytes, size, &count) == 1)
    return count;
  return judge_tls(0);
}

std::optional<size_t> Handshake::read_passed(char* bytes, size_t size) {
  iovec piece{bytes, size};
  msghdr message{};
  message.msg_iov = &piece;
  message.msg_iovlen = 1;
  alignas(cmsghdr) std::array<char, CMSG_SPACE(max_passed * sizeof(int))>
    space{};
  message.msg_control = space.data();
  message.msg_controllen = space.size();
  const auto count = ::recvmsg(descriptor_.get(), &message,
                               MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  if (count < 0) {
    wants_ = EPOLLIN;
    if (would_block())
      return 0;
    fail(std::strerror(errno));
    return std::nullopt;
  }
  for (auto* head = CMSG_FIRSTHDR(&message); head != nullptr;
       head = CMSG_NXTHDR(&message, head)) {
    if (head->cmsg_level != SOL_SOCKET || head->cmsg_type != SCM_RIGHTS)
      continue;
    const auto numbers = (head->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t i = 0; i < numbers; ++i) {
      int number = -1;
      std::memcpy(&number, CMSG_DATA(head) + i * sizeof(int), sizeof number);
      received_.emplace_back(number);
    }
  }
  if (count == 0)
    fail("it closed the connection");
  else if ((message.msg_flags & MSG_CTRUNC) != 0
           || received_.size() > max_passed)
    fail("it passed more descriptors than a link does", true);
  else
    return static_cast<size_t>(count);
  return std::nullopt;
}

std::unique_ptr<LinkSocket> Handshake::finish(bool encrypted,
                                              const TlsContext* tls,
                                              const std::string& who) {
  std::vector<LiveConnections::Entry> entries;
  if (tls && session_)
    entries = tls->enter(session_.get(), descriptor_.get());
  else if (const auto name = parse_member_name(who); tls && name)
    entries.push_back(tls->live()->enter(*name, descriptor_.get()));
  if (session_ && !encrypted) {
    if (SSL_has_pending(session_.get()) != 0)
      return nullptr; // they would be lost
    session_.reset();
  }
  auto socket = std::make_unique<LinkSocket>(descriptor_.release(),
                                             session_.release());
  socket->keep(std::move(entries));
  return socket;
}

} // namespace troupe
