#include "actors/links/tls_context.hpp"

#include "kernels/error.hpp"

#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>

namespace troupe {
namespace {

struct Free {
  void operator()(BIO* x) const { BIO_free(x); }
  void operator()(X509* x) const { X509_free(x); }
  void operator()(EVP_PKEY* x) const { EVP_PKEY_free(x); }
};
using Bio = std::unique_ptr<BIO, Free>;
using Certificate = std::unique_ptr<X509, Free>;
using Key = std::unique_ptr<EVP_PKEY, Free>;

void check(bool holds, const std::string& what) {
  if (!holds)
    throw InputError("certificates: cannot use " + what + ": "
                     + take_tls_error()
                     + "; copy the folder that the coordinator made");
}

Bio text_of(const std::string& pem) {
  return Bio{BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size()))};
}

Certificate next_certificate(BIO* text) {
  return Certificate{PEM_read_bio_X509(text, nullptr, nullptr, nullptr)};
}

/// Each certificate of a text, at least one.
template <class Use>
void for_each_certificate(const std::string& pem, const std::string& what,
                          Use use) {
  const auto text = text_of(pem);
  auto certificate = next_certificate(text.get());
  for (bool first = true; certificate; first = false) {
    check(use(certificate, first), what);
    certificate = next_certificate(text.get());
    if (!certificate)
      ERR_clear_error(); // the text's end
  }
}

void trust(SSL_CTX* context, const Credentials& credentials) {
  const auto what = credentials.folder + "/ca.pem";
  size_t count = 0;
  for_each_certificate(
    credentials.authority, what, [&](const Certificate& x, bool) {
      ++count;
      return X509_STORE_add_cert(SSL_CTX_get_cert_store(context), x.get()) == 1;
    });
  check(count > 0, what);
}

void show(SSL_CTX* context, const Credentials& credentials) {
  const auto what = credentials.folder + "/node.pem";
  size_t count = 0;
  for_each_certificate(
    credentials.certificate, what, [&](Certificate& x, bool first) {
      ++count;
      if (first)
        return SSL_CTX_use_certificate(context, x.get()) == 1;
      if (SSL_CTX_add0_chain_cert(context, x.get()) != 1)
        return false;
      x.release(); // the context has it
      return true;
    });
  check(count > 0, what);
  const auto text = text_of(credentials.key);
  const Key key{PEM_read_bio_PrivateKey(text.get(), nullptr, nullptr, nullptr)};
  check(key && SSL_CTX_use_PrivateKey(context, key.get()) == 1
          && SSL_CTX_check_private_key(context) == 1,
        credentials.folder + "/node.key");
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
  trust(context_, credentials);
  show(context_, credentials);
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
