#include "actors/links/tls_context.hpp"

#include "kernels/error.hpp"

#include <openssl/err.h>
#include <openssl/ssl.h>

namespace troupe {
namespace {

void check(bool holds, const std::string& path) {
  if (!holds)
    throw InputError("links: cannot use " + path + ": " + take_tls_error()
                     + "; copy the folder that the coordinator made");
}

} // namespace

void FreeTlsSession::operator()(ssl_st* session) const {
  SSL_free(session);
}

TlsContext::TlsContext(const Credentials& credentials)
  : context_(SSL_CTX_new(TLS_method())) {
  std::unique_ptr<SSL_CTX, void (*)(SSL_CTX*)> owned{context_, SSL_CTX_free};
  ERR_clear_error();
  check(context_ != nullptr, "TLS");
  SSL_CTX_set_min_proto_version(context_, TLS1_3_VERSION);
  // A session that goes on in plain bytes must have no record under way, and a
  // watcher must not be woken by one.
  SSL_CTX_set_num_tickets(context_, 0);
  SSL_CTX_set_session_cache_mode(context_, SSL_SESS_CACHE_OFF);
  SSL_CTX_set_read_ahead(context_, 0);
  SSL_CTX_set_mode(context_, SSL_MODE_ENABLE_PARTIAL_WRITE
                               | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
  check(SSL_CTX_load_verify_file(context_, credentials.authority().c_str())
          == 1,
        credentials.authority());
  check(SSL_CTX_use_certificate_chain_file(context_,
                                           credentials.certificate().c_str())
          == 1,
        credentials.certificate());
  check(SSL_CTX_use_PrivateKey_file(context_, credentials.key().c_str(),
                                    SSL_FILETYPE_PEM)
          == 1,
        credentials.key());
  check(SSL_CTX_check_private_key(context_) == 1, credentials.key());
  SSL_CTX_set_verify(
    context_, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, nullptr);
  SSL_CTX_set_verify_depth(context_, 4);
  owned.release();
}

TlsContext::~TlsContext() {
  SSL_CTX_free(context_);
}

TlsSession TlsContext::open(int descriptor, bool connecting) const {
  TlsSession session{SSL_new(context_)};
  if (!session || SSL_set_fd(session.get(), descriptor) != 1)
    return nullptr;
  if (connecting)
    SSL_set_connect_state(session.get());
  else
    SSL_set_accept_state(session.get());
  return session;
}

std::string take_tls_error() {
  const auto code = ERR_peek_last_error();
  ERR_clear_error();
  const auto* reason = code == 0 ? nullptr : ERR_reason_error_string(code);
  return reason == nullptr ? "no reason given" : reason;
}

} // namespace troupe
