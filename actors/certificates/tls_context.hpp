#pragma once

#include "actors/certificates/credentials.hpp"
#include "actors/certificates/live_connections.hpp"

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

struct ssl_st;
struct ssl_ctx_st;

namespace troupe {

class Revocations;

struct FreeTlsSession {
  void operator()(ssl_st* session) const;
};
using TlsSession = std::unique_ptr<ssl_st, FreeTlsSession>;

/// TLS 1.3 between members of a job: both sides show a certificate of the job's
/// authority that names a member and is valid now, no session is resumed,
/// nothing but records of the handshake and of data is sent. Thread-safe.
/// Source: RFC 8446.
class TlsContext {
public:
  /// Errors: InputError naming the file.
  explicit TlsContext(const Credentials& credentials);
  ~TlsContext();
  TlsContext(const TlsContext&) = delete;
  TlsContext& operator=(const TlsContext&) = delete;

  /// A session over a connected, non-blocking descriptor, which is not owned;
  /// null when there is no memory.
  TlsSession open(int descriptor, bool connecting) const;

  /// The same for those who are no members: this side alone shows its
  /// certificate.
  TlsSession open_to_anyone(int descriptor) const;

  /// What sessions show from now on; those that are open go on.
  /// Errors: InputError naming the file.
  void renew(const Credentials& credentials);
  /// What they show now.
  Credentials credentials() const;

  /// A member's certificates that were issued until then are refused from here
  /// on, and connections with it end.
  void revoke(const MemberName& name, int64_t until);
  /// Enters a connection, whose handshake is done, so that it ends with the
  /// certificates shown on it. What is returned goes before the socket closes.
  [[nodiscard]] std::vector<LiveConnections::Entry> enter(ssl_st* session,
                                                          int socket) const;
  /// For those that show none: of one host.
  const std::shared_ptr<LiveConnections>& live() const { return live_; }
  /// Whose certificates sessions refuse although they are valid.
  const std::shared_ptr<Revocations>& revocations() const {
    return revocations_;
  }

private:
  using Context = std::shared_ptr<ssl_ctx_st>;

  struct Contexts {
    Context members;
    Context anyone;
  };

  Contexts make(const Credentials& credentials) const;
  Contexts current() const;

  std::shared_ptr<Revocations> revocations_;
  std::shared_ptr<LiveConnections> live_ = std::make_shared<LiveConnections>();
  const CertificateSource source_;
  mutable std::mutex mutex_;
  Credentials credentials_;
  Contexts contexts_;
};

/// Makes the session one in which a certificate is asked for: before its
/// handshake. It need not show one, and says nothing else. What tells it apart
/// is the name of its protocol in the greeting (ALPN, RFC 7301).
void petition_by(ssl_st* session);
/// Whether it is one, after its handshake.
bool is_petition(ssl_st* session);

/// Whom the other side's certificate names, once the handshake is done; nobody
/// before.
MemberName peer_of(ssl_st* session);

/// Describes OpenSSL's newest error of this thread and forgets it; of a
/// certificate that was refused, what was wrong with it.
std::string take_tls_error();
/// The same where it is about a certificate, of either side; else empty, and
/// the error is forgotten as well.
std::string certificate_trouble();

} // namespace troupe
