#pragma once

#include "actors/certificates/tls_context.hpp"
#include "actors/sockets/descriptor.hpp"
#include "actors/sockets/socket.hpp"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace troupe {

/// One connection until it is a link: TLS first (not on a socket of this
/// host), then one greeting each way. Never waits and never reads beyond the
/// peer's greeting.
class Handshake {
public:
  enum class State : uint8_t {
    waiting, ///< for what wants() says
    greeted, ///< the peer's greeting is there
    sent,    ///< the own greeting is with the system
    failed,
  };

  /// `session` null: a socket of this host, which can pass descriptors.
  Handshake(Descriptor descriptor, TlsSession session);

  /// Queues the own greeting, with descriptors to pass (at most 2; not on TCP).
  void greet(std::string greeting, std::vector<Descriptor> passed = {});
  /// Goes on. With a greeting queued and not sent: sends it; otherwise reads
  /// the peer's.
  State advance();

  /// EPOLLIN or EPOLLOUT, after State::waiting.
  uint32_t wants() const { return wants_; }
  int descriptor() const { return descriptor_.get(); }
  /// The body of the peer's greeting.
  const std::string& greeting() const { return body_; }
  /// Whom its certificate names, after the greeting; nobody on a socket of this
  /// host.
  MemberName peer() const { return peer_of(session_.get()); }
  /// What came with it.
  std::vector<Descriptor>& received() { return received_; }
  const std::string& failure() const { return failure_; }
  /// Whether trying again cannot help: the peer refuses our certificate, or we
  /// theirs, or it speaks something else.
  bool hopeless() const { return hopeless_; }

  /// The stream after both greetings; encrypted if `encrypted` and under TLS.
  /// Errors: null when the peer said more under TLS than its greeting.
  /// It is entered in `tls` under the member's certificate, on a socket of this
  /// host under the name `who`; null: it is not.
  std::unique_ptr<LinkSocket> finish(bool encrypted, const TlsContext* tls,
                                     const std::string& who);
  /// The socket of this host, after both greetings.
  Descriptor take_descriptor() { return std::move(descriptor_); }

private:
  State fail(std::string why, bool hopeless = false);
  State send_some();
  State receive_some();
  /// Bytes moved; 0: wait, as wants() says. Errors: nullopt, after fail().
  std::optional<size_t> write(const char* bytes, size_t size);
  std::optional<size_t> read(char* bytes, size_t size);
  std::optional<size_t> read_passed(char* bytes, size_t size);
  std::optional<size_t> judge_tls(int result);

  Descriptor descriptor_;
  TlsSession session_; ///< after descriptor_: freed first
  std::string out_;
  size_t sent_ = 0;
  std::vector<Descriptor> passed_;
  std::string in_;
  std::string body_;
  std::vector<Descriptor> received_;
  uint32_t wants_ = 0;
  std::string failure_;
  bool hopeless_ = false;
};

} // namespace troupe
