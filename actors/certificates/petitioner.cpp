#include "actors/certificates/petitioner.hpp"

#include "actors/sockets/addresses.hpp"
#include "actors/sockets/descriptor.hpp"
#include "actors/sockets/endpoint.hpp"
#include "kernels/base/error.hpp"
#include "kernels/base/steady_clock.hpp"

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace troupe {
namespace {

using Clock = SteadyClock;
using std::chrono::milliseconds;

[[noreturn]] void give_up(const std::string& where, const std::string& why) {
  throw InputError("certificates: the coordinator at " + where + ": " + why);
}

/// Waits on a socket that does not block.
class Wait {
public:
  Wait(int socket, std::string where, Clock::time_point deadline)
    : socket_(socket), where_(std::move(where)), deadline_(deadline) {}

  void until(short events) const {
    const auto left =
      std::chrono::duration_cast<milliseconds>(deadline_ - Clock::now());
    pollfd polled{socket_, events, 0};
    if (left.count() <= 0
        || ::poll(&polled, 1, static_cast<int>(left.count())) == 0)
      give_up(where_, "does not answer in time");
  }

  /// Goes on with what OpenSSL could not finish; false: the connection is over.
  bool retry(ssl_st* session, int result) const {
    switch (SSL_get_error(session, result)) {
      case SSL_ERROR_WANT_READ:
        until(POLLIN);
        return true;
      case SSL_ERROR_WANT_WRITE:
        until(POLLOUT);
        return true;
      default:
        return false;
    }
  }

private:
  int socket_;
  std::string where_;
  Clock::time_point deadline_;
};

Descriptor connected(const Endpoint& to, Clock::time_point deadline) {
  const auto where = to_string(to);
  const auto address = SocketAddress::find(to.host, to.port);
  if (!address)
    give_up(where, "its name is not known here");
  Descriptor made{open_socket(*address)};
  const auto refuse = [&](int error) { give_up(where, std::strerror(error)); };
  if (!made)
    refuse(errno);
  if (::connect(made.get(), address->get(), address->size()) == 0)
    return made;
  if (errno != EINPROGRESS)
    refuse(errno);
  Wait{made.get(), where, deadline}.until(POLLOUT);
  int error = 0;
  socklen_t size = sizeof error;
  ::getsockopt(made.get(), SOL_SOCKET, SO_ERROR, &error, &size);
  if (error != 0)
    refuse(error);
  return made;
}

/// Says it and reads the answer to its end.
std::string converse(ssl_st* session, const Wait& wait,
                     const std::string& where, const std::string& text) {
  const auto fail = [&] { give_up(where, take_tls_error()); };
  for (;;) {
    ERR_clear_error();
    const int result = SSL_do_handshake(session);
    if (result == 1)
      break;
    if (!wait.retry(session, result))
      fail();
  }
  if (peer_of(session) != coordinator_name)
    give_up(where, "its certificate is that of " + to_string(peer_of(session)));
  if (!is_petition(session))
    give_up(where, "signs nothing, as it has no ca.key");
  for (;;) {
    ERR_clear_error();
    const int result = SSL_write(session, text.data(),
                                 static_cast<int>(text.size()));
    if (result > 0)
      break; // partial writes are of records, and this is one
    if (!wait.retry(session, result))
      fail();
  }
  std::string answer;
  for (;;) {
    char bytes[4096];
    ERR_clear_error();
    const int result = SSL_read(session, bytes, sizeof bytes);
    if (result > 0)
      answer.append(bytes, static_cast<size_t>(result));
    else if (!wait.retry(session, result))
      break;
    if (answer.size() > longest_petition)
      give_up(where, "says more than an answer");
  }
  if (answer.empty()) {
    const auto why = certificate_trouble();
    give_up(where, why.empty() ? "gave no answer; does it lead, and reach a "
                                 "majority of voters?"
                               : why);
  }
  return answer;
}

/// The certificates of an "ok", with the key that was signed.
Credentials accepted(const std::string& answer, const std::string& where,
                     const CertificateSource& source, const MemberName& name) {
  constexpr std::string_view refusal = "refused: ";
  if (answer.starts_with(refusal)) {
    auto line = answer.substr(refusal.size());
    line.erase(std::find(line.begin(), line.end(), '\n'), line.end());
    give_up(where, "refused: " + line);
  }
  Credentials out;
  out.source = source;
  out.folder = source.path;
  out.name = name;
  const std::string begin = "-----BEGIN CERTIFICATE-----";
  const auto first = answer.find(begin);
  const auto second = answer.find(begin, first + 1);
  if (!answer.starts_with("ok\n"))
    give_up(where, "answers with something else than a certificate");
  if (first != std::string::npos && second != std::string::npos) {
    out.authority = answer.substr(first, second - first);
    out.certificate = answer.substr(second);
  }
  return out;
}

template <class Attempt>
auto at_one_of(const std::string& coordinators, Attempt attempt) {
  const auto places = parse_endpoints(coordinators);
  if (places.empty())
    throw InputError("address " + coordinators + ": expected HOST:PORT");
  for (size_t i = 0; i + 1 < places.size(); ++i)
    try {
      return attempt(places[i]);
    } catch (const InputError&) {
      // The next one may lead.
    }
  return attempt(places.back());
}

struct Signing {
  Key key = make_key();
  std::string request = to_pem(make_request(key.get()).get());
};

void check_signed(const Credentials& made, const Signing& own,
                  const std::string& where) {
  const auto certificate = certificate_in(made.certificate);
  if (name_in(certificate.get()) != made.name
      || X509_check_private_key(certificate.get(), own.key.get()) != 1)
    give_up(where, "signed something else than was asked for");
}

/// Trusts the authority that the token names, wherever it is in the chain, and
/// nothing else.
int trust_token(X509_STORE_CTX* chain, void* expected) {
  const auto& token = *static_cast<const JoinToken*>(expected);
  auto* others = X509_STORE_CTX_get0_untrusted(chain);
  for (int i = 0; i < sk_X509_num(others); ++i) {
    auto* one = sk_X509_value(others, i);
    if (fingerprint(one) != token.fingerprint)
      continue;
    auto* trusted = sk_X509_new_null();
    sk_X509_push(trusted, one);
    X509_STORE_CTX_set0_trusted_stack(chain, trusted);
    const int fine = X509_verify_cert(chain);
    sk_X509_free(trusted);
    return fine;
  }
  X509_STORE_CTX_set_error(chain, X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN);
  return 0;
}

} // namespace

Credentials petition(const TlsContext& tls, const std::string& coordinators,
                     const Petition& what, milliseconds deadline) {
  return at_one_of(coordinators, [&](const Endpoint& place) {
    const auto end = Clock::now() + deadline; // of one that may be cut off
    const auto where = to_string(place);
    const auto socket = connected(place, end);
    const auto session = tls.open(socket.get(), true);
    if (!session)
      give_up(where, "no memory for TLS");
    petition_by(session.get());
    const auto answer = converse(session.get(), {socket.get(), where, end},
                                 where, to_text(what));
    return accepted(answer, where, tls.credentials().source, what.name);
  });
}

Credentials renewed(const TlsContext& tls, const std::string& coordinators,
                    milliseconds deadline) {
  const auto old = tls.credentials();
  if (!old.authority_key.empty()) {
    auto made = make_member(old, old.name);
    made.authority_key = old.authority_key;
    made.signer = old.signer;
    return made;
  }
  if (coordinators.empty())
    throw InputError("there is no authority's key here, and nobody to ask");
  const Signing own;
  auto made = petition(tls, coordinators,
                       {Petition::Kind::renew, old.name, {}, own.request},
                       deadline);
  check_signed(made, own, coordinators);
  made.key = to_pem(own.key.get());
  return made;
}

Credentials join_with(const JoinToken& token, const std::string& coordinators,
                      const CertificateSource& source, milliseconds deadline) {
  const Signing own;
  const std::unique_ptr<SSL_CTX, void (*)(SSL_CTX*)> context{
    SSL_CTX_new(TLS_client_method()), SSL_CTX_free};
  if (!context)
    throw InputError("certificates: no memory for TLS");
  SSL_CTX_set_min_proto_version(context.get(), TLS1_3_VERSION);
  SSL_CTX_set_verify(context.get(), SSL_VERIFY_PEER, nullptr);
  auto pinned = token;
  SSL_CTX_set_cert_verify_callback(context.get(), trust_token, &pinned);
  auto made = at_one_of(coordinators, [&](const Endpoint& place) {
    const auto end = Clock::now() + deadline;
    const auto where = to_string(place);
    const auto socket = connected(place, end);
    const TlsSession session{SSL_new(context.get())};
    if (!session || SSL_set_fd(session.get(), socket.get()) != 1)
      give_up(where, "no memory for TLS");
    X509_VERIFY_PARAM_set_time(SSL_get0_param(session.get()),
                               static_cast<std::time_t>(source.now()));
    SSL_set_connect_state(session.get());
    petition_by(session.get());
    const auto answer = converse(session.get(), {socket.get(), where, end},
                                 where,
                                 to_text({Petition::Kind::join, token.name,
                                          to_string(token), own.request}));
    return accepted(answer, where, source, token.name);
  });
  const auto authority = certificate_in(made.authority);
  if (!authority || fingerprint(authority.get()) != token.fingerprint)
    give_up(coordinators, "has another authority than the token");
  check_signed(made, own, coordinators);
  made.key = to_pem(own.key.get());
  return made;
}

} // namespace troupe
