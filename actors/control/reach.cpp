#include "actors/control/reach.hpp"

#include "actors/certificates/tls_context.hpp"
#include "actors/sockets/addresses.hpp"
#include "actors/sockets/descriptor.hpp"
#include "kernels/base/steady_clock.hpp"

#include <linux/sockios.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509_vfy.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <future>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

namespace troupe {
namespace {

using Clock = SteadyClock;

struct FreeAddresses {
  void operator()(addrinfo* x) const { ::freeaddrinfo(x); }
};
using Addresses = std::unique_ptr<addrinfo, FreeAddresses>;

struct Found {
  int status = 0;
  Addresses addresses;
};

Found look_up(const Endpoint& where) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* list = nullptr;
  Found out;
  out.status = ::getaddrinfo(where.host.c_str(),
                             std::to_string(where.port).c_str(), &hints, &list);
  out.addresses.reset(list);
  return out;
}

int left_ms(Clock::time_point deadline) {
  const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
    deadline - Clock::now());
  return static_cast<int>(std::max<int64_t>(0, left.count()));
}

/// False: not before the deadline.
bool wait_for(int socket, short events, Clock::time_point deadline) {
  pollfd waited{socket, events, 0};
  int ready = 0;
  do
    ready = ::poll(&waited, 1, left_ms(deadline));
  while (ready < 0 && errno == EINTR);
  return ready > 0;
}

/// 0, or why not.
int connect_to(const addrinfo& address, Clock::time_point deadline,
               Descriptor& out) {
  Descriptor made{
    ::socket(address.ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0)};
  if (!made)
    return errno;
  if (::connect(made.get(), address.ai_addr, address.ai_addrlen) != 0) {
    if (errno != EINPROGRESS)
      return errno;
    if (!wait_for(made.get(), POLLOUT, deadline))
      return ETIMEDOUT;
    int failure = 0;
    socklen_t size = sizeof failure;
    ::getsockopt(made.get(), SOL_SOCKET, SO_ERROR, &failure, &size);
    if (failure != 0)
      return failure;
  }
  out = std::move(made);
  return 0;
}

Reach of_lookup(const Endpoint& where, int status) {
  const auto what = "the host " + where.host + " is not known ("
                    + ::gai_strerror(status) + ')';
  if (status == EAI_AGAIN)
    return {ReachKind::unknown_yet, what + ": is its name service reachable?"};
  return {ReachKind::no_such_host, what + ": check --coordinator"};
}

Reach of_connection(const Endpoint& where, int failure) {
  const auto at = to_string(where);
  if (failure == ECONNREFUSED)
    return {ReachKind::not_listening,
            "nobody listens at " + at
              + ": is the coordinator running there, and is its --listen an "
                "address of that host?"};
  return {ReachKind::silent, at + " cannot be reached ("
                               + std::strerror(failure)
                               + "): is there a way to that host, and does no "
                                 "firewall close the port?"};
}

Reach open_way(const Endpoint& where, Clock::time_point deadline,
               Descriptor& socket) {
  // A name service that does not answer takes longer than anybody waits here.
  auto promise = std::make_shared<std::promise<Found>>();
  auto answer = promise->get_future();
  std::thread{[promise, where] {
    promise->set_value(look_up(where));
  }}.detach();
  if (answer.wait_until(deadline) != std::future_status::ready)
    return of_lookup(where, EAI_AGAIN);
  const auto found = answer.get();
  if (found.status != 0)
    return of_lookup(where, found.status);
  int failure = ETIMEDOUT;
  for (const auto* one = found.addresses.get(); one; one = one->ai_next)
    if (failure = connect_to(*one, deadline, socket); failure == 0)
      return {};
  return of_connection(where, failure);
}

/// A handshake that failed, or a first word that was none.
Reach of_handshake(const Endpoint& where, ssl_st* session) {
  const auto at = to_string(where);
  const auto verdict = SSL_get_verify_result(session);
  const auto code = ERR_peek_last_error();
  const auto reason = ERR_GET_REASON(code);
  const bool alert = ERR_GET_LIB(code) == ERR_LIB_SSL
                     && reason >= SSL_AD_REASON_OFFSET;
  const auto why = take_tls_error();
  if (verdict == X509_V_ERR_CERT_HAS_EXPIRED
      || verdict == X509_V_ERR_CERT_NOT_YET_VALID
      || verdict == X509_V_ERR_CERT_REVOKED)
    return {ReachKind::strange, "at " + at + " " + why};
  if (verdict != X509_V_OK)
    return {ReachKind::strange,
            at + " shows a certificate that is not of this job (" + why
              + "): copy the folder of --certificates from the coordinator's "
                "host"};
  if (alert)
    return {ReachKind::refused,
            at + " does not take the certificates that are here (" + why
              + "): copy the folder of --certificates from the coordinator's "
                "host"};
  return {ReachKind::no_member, "what listens at " + at
                                  + " is no coordinator of this job (" + why
                                  + "): check --coordinator"};
}

/// Sends one that has no room for another byte. Who sent the connection away
/// meanwhile answers it with a reset, so that is as good as being told that it
/// has come. The kernel of the other side says so, however busy its processes
/// are.
bool passes_large_packet(const Descriptor& socket, size_t bytes,
                         Clock::time_point deadline) {
  constexpr std::chrono::milliseconds look_period{10};
  const std::vector<char> packet(bytes);
  if (::send(socket.get(), packet.data(), packet.size(), MSG_NOSIGNAL) < 0)
    return true; // a reset that came already, or nothing that tells of packets
  for (;;) {
    int under_way = 0;
    if (::ioctl(socket.get(), SIOCOUTQ, &under_way) != 0 || under_way == 0)
      return true;
    if (Clock::now() >= deadline)
      return false;
    // Errors and hang-ups are told without being asked for.
    if (wait_for(socket.get(), 0,
                 std::min(deadline, Clock::now() + look_period)))
      return true;
  }
}

/// Bytes of data that the largest packet of a connection has room for.
size_t largest_packet(const Descriptor& socket) {
  constexpr size_t usual = 1'448;
  int bytes = 0;
  socklen_t size = sizeof bytes;
  return ::getsockopt(socket.get(), IPPROTO_TCP, TCP_MAXSEG, &bytes, &size) == 0
             && bytes > 0
           ? static_cast<size_t>(bytes)
           : usual;
}

} // namespace

Reach reach_with_large_packets(const Endpoint& where,
                               std::chrono::milliseconds deadline) {
  Descriptor socket;
  auto way = open_way(where, Clock::now() + deadline, socket);
  if (way.kind == ReachKind::answers) {
    const auto bytes = largest_packet(socket);
    if (!passes_large_packet(socket, bytes, Clock::now() + deadline))
      way = {ReachKind::silent,
             to_string(where) + " gets small packets, and those with "
               + std::to_string(bytes)
               + " bytes of data get lost on the way: a tunnel or a card takes "
                 "less than the hosts believe, and nobody tells them; set what "
                 "it takes on both (ip link set dev DEVICE mtu 1400)"};
  }
  send_away(std::move(socket));
  return way;
}

Reach reach_host(const Endpoint& where, std::chrono::milliseconds deadline) {
  Descriptor socket;
  auto way = open_way(where, Clock::now() + deadline, socket);
  send_away(std::move(socket)); // costs the other side least
  return way;
}

Reach reach_of_failure(const Endpoint& where, ssl_st* session,
                       int system_error) {
  const auto at = to_string(where);
  if (system_error == ECONNRESET || system_error == EPIPE)
    return {ReachKind::silent,
            at
              + " sends everybody away: is it overloaded, or is there a crowd "
                "of strangers?"};
  const auto code = ERR_peek_last_error();
  const bool ended =
    code == 0
    || (ERR_GET_LIB(code) == ERR_LIB_SSL
        && ERR_GET_REASON(code) == SSL_R_UNEXPECTED_EOF_WHILE_READING);
  if (ended && SSL_get_verify_result(session) == X509_V_OK)
    return {ReachKind::silent,
            at
              + " ends connections before it has said who it is: is it "
                "overloaded, or no coordinator of this job?"};
  return of_handshake(where, session);
}

Reach reach_of_waiting(const Endpoint& where, bool shown) {
  const auto at = to_string(where);
  return {ReachKind::silent,
          shown ? at
                    + " has shown its certificate and says nothing more: is "
                      "the coordinator there overloaded?"
                : at
                    + " takes connections and does not answer: is the "
                      "coordinator there stopped, or overloaded?",
          true};
}

} // namespace troupe
