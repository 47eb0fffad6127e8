#include "actors/certificates/tls_context.hpp"

#include "actors/certificates/revocations.hpp"
#include "kernels/base/error.hpp"

#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509_vfy.h>
#include <sys/socket.h>

#include <ctime>
#include <utility>

namespace troupe {
namespace {

struct FreeText {
  void operator()(BIO* x) const { BIO_free(x); }
};
using Bio = std::unique_ptr<BIO, FreeText>;

/// Why this thread's newest handshake refused a certificate: OpenSSL's word for
/// it names neither whose it was nor a date.
thread_local std::string refused;

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
  const auto what = credentials.folder + ", the certificate of "
                    + to_string(credentials.name);
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
  const auto key = key_in(credentials.key);
  check(key && SSL_CTX_use_PrivateKey(context, key.get()) == 1
          && SSL_CTX_check_private_key(context) == 1,
        credentials.folder + ", the key of " + to_string(credentials.name));
}

constexpr unsigned char petition_protocol[] = "\x13troupe-certificates";
constexpr unsigned petition_size = sizeof petition_protocol - 1;

bool is_revoked(X509_STORE_CTX* chain, const MemberName& name,
                const Period& period) {
  const auto* session = static_cast<ssl_st*>(
    X509_STORE_CTX_get_ex_data(chain, SSL_get_ex_data_X509_STORE_CTX_idx()));
  const auto* revoked = static_cast<const Revocations*>(
    SSL_CTX_get_app_data(SSL_get_SSL_CTX(session)));
  return revoked->is_revoked(name, period);
}

/// Asked for each certificate of the other side's chain, its own last.
int judge(int fine, X509_STORE_CTX* chain) {
  auto* certificate = X509_STORE_CTX_get_current_cert(chain);
  const int code = X509_STORE_CTX_get_error(chain);
  const auto name = name_in(certificate);
  const auto whose = "the certificate of "
                     + (name ? to_string(*name) : "a peer");
  if (fine == 1) {
    // Authorities above it need no name; members sign for nobody, and those
    // that have a name for members only. pathlen alone lets one of them make
    // another of the same name (RFC 5280, 6.1.4 l).
    const int depth = X509_STORE_CTX_get_error_depth(chain);
    const bool above = depth > 0;
    const bool signs = name && name->kind == MemberName::Kind::authority;
    const bool fits = above ? !name || (signs && depth == 1) : name && !signs;
    if (fits && (!name || !is_revoked(chain, *name, period_of(certificate))))
      return 1;
    refused = fits             ? whose + " is revoked"
              : signs && above ? to_string(*name) + " makes no authority"
              : above          ? to_string(*name) + " signs for nobody"
              : name           ? to_string(*name) + " is no member of a job"
                               : "its certificate names no member of a job";
    X509_STORE_CTX_set_error(chain, fits ? X509_V_ERR_CERT_REVOKED
                                         : X509_V_ERR_APPLICATION_VERIFICATION);
    return 0;
  }
  refused = whose + ": " + X509_verify_cert_error_string(code);
  if (code == X509_V_ERR_CERT_HAS_EXPIRED
      || code == X509_V_ERR_CERT_NOT_YET_VALID) {
    const auto* parameters = X509_STORE_CTX_get0_param(chain);
    refused = whose + ' '
              + why_not_now(
                period_of(certificate),
                static_cast<int64_t>(X509_VERIFY_PARAM_get_time(parameters)));
  }
  return 0;
}

/// Who asks for a certificate may have none yet.
int choose(SSL* session, const unsigned char** chosen, unsigned char* size,
           const unsigned char* offered, unsigned offered_size, void*) {
  unsigned char* found = nullptr;
  if (SSL_select_next_proto(&found, size, petition_protocol, petition_size,
                            offered, offered_size)
      != OPENSSL_NPN_NEGOTIATED)
    return SSL_TLSEXT_ERR_ALERT_FATAL;
  *chosen = found;
  SSL_set_verify(session, SSL_VERIFY_PEER, judge);
  return SSL_TLSEXT_ERR_OK;
}

/// Who has a token knows the authority by its fingerprint, not by its
/// certificate: it is shown.
void show_authority(SSL_CTX* context, const Credentials& credentials) {
  const auto authority = certificate_in(credentials.authority);
  check(SSL_CTX_add1_chain_cert(context, authority.get()) == 1,
        credentials.folder + "/ca.pem");
}

/// TLS that shows those credentials and asks for nothing.
std::shared_ptr<SSL_CTX> begin(const Credentials& credentials) {
  std::shared_ptr<SSL_CTX> made{SSL_CTX_new(TLS_method()), SSL_CTX_free};
  auto* context = made.get();
  check(context != nullptr, "TLS");
  SSL_CTX_set_min_proto_version(context, TLS1_3_VERSION);
  // A session that goes on in plain bytes must have no record under way, and a
  // watcher must not be woken by one.
  SSL_CTX_set_num_tickets(context, 0);
  SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
  SSL_CTX_set_read_ahead(context, 0);
  SSL_CTX_set_mode(context, SSL_MODE_ENABLE_PARTIAL_WRITE
                              | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
  show(context, credentials);
  return made;
}

} // namespace

void petition_by(ssl_st* session) {
  SSL_set_alpn_protos(session, petition_protocol, petition_size);
}

bool is_petition(ssl_st* session) {
  const unsigned char* chosen = nullptr;
  unsigned size = 0;
  SSL_get0_alpn_selected(session, &chosen, &size);
  return size > 0;
}

void FreeTlsSession::operator()(ssl_st* session) const {
  SSL_free(session);
}

TlsContext::TlsContext(const Credentials& credentials)
  : revocations_(std::make_shared<Revocations>()),
    source_(credentials.source),
    credentials_(credentials),
    contexts_(make(credentials)) {}

TlsContext::~TlsContext() = default;

TlsContext::Contexts TlsContext::make(const Credentials& credentials) const {
  ERR_clear_error();
  refused.clear();
  Contexts made{begin(credentials), begin(credentials)};
  auto* context = made.members.get();
  trust(context, credentials);
  // An authority below a company's is one, too.
  X509_VERIFY_PARAM_set_flags(SSL_CTX_get0_param(context),
                              X509_V_FLAG_PARTIAL_CHAIN);
  SSL_CTX_set_verify(context, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT,
                     judge);
  SSL_CTX_set_verify_depth(context, 4);
  SSL_CTX_set_app_data(context, revocations_.get());
  if (credentials.name == coordinator_name
      && !credentials.authority_key.empty()) {
    show_authority(context, credentials);
    SSL_CTX_set_alpn_select_cb(context, choose, nullptr);
  }
  return made;
}

TlsContext::Contexts TlsContext::current() const {
  const std::lock_guard guard{mutex_};
  return contexts_;
}

void TlsContext::renew(const Credentials& credentials) {
  auto made = make(credentials);
  const std::lock_guard guard{mutex_};
  credentials_ = credentials;
  contexts_ = std::move(made);
}

Credentials TlsContext::credentials() const {
  const std::lock_guard guard{mutex_};
  return credentials_;
}

void TlsContext::revoke(const MemberName& name, int64_t until) {
  try {
    if (revocations_->revoke(name, until))
      live_->cut(name);
  } catch (...) { // it holds, and is not written down
    live_->cut(name);
    throw;
  }
}

std::vector<LiveConnections::Entry> TlsContext::enter(ssl_st* session,
                                                      int socket) const {
  std::vector<LiveConnections::Entry> entries;
  bool holds = true;
  const auto* chain = SSL_get0_verified_chain(session);
  for (int i = 0; i < sk_X509_num(chain); ++i) {
    auto* certificate = sk_X509_value(chain, i);
    const auto name = name_in(certificate);
    if (!name)
      continue;
    entries.push_back(live_->enter(*name, socket));
    holds = holds && !revocations_->is_revoked(*name, period_of(certificate));
  }
  if (!holds) // since its handshake
    ::shutdown(socket, SHUT_RDWR);
  return entries;
}

TlsSession TlsContext::open(int descriptor, bool connecting) const {
  TlsSession session{SSL_new(current().members.get())};
  if (!session || SSL_set_fd(session.get(), descriptor) != 1)
    return nullptr;
  X509_VERIFY_PARAM_set_time(SSL_get0_param(session.get()),
                             static_cast<std::time_t>(source_.now()));
  if (connecting)
    SSL_set_connect_state(session.get());
  else
    SSL_set_accept_state(session.get());
  return session;
}

TlsSession TlsContext::open_to_anyone(int descriptor) const {
  TlsSession session{SSL_new(current().anyone.get())};
  if (!session || SSL_set_fd(session.get(), descriptor) != 1)
    return nullptr;
  SSL_set_accept_state(session.get());
  return session;
}

MemberName peer_of(ssl_st* session) {
  const Certificate shown{
    session == nullptr ? nullptr : SSL_get1_peer_certificate(session)};
  return name_in(shown.get()).value_or(MemberName{});
}

std::string certificate_trouble() {
  const auto code = ERR_peek_last_error();
  const bool told = ERR_GET_LIB(code) == ERR_LIB_SSL
                    && ERR_GET_REASON(code) > SSL_AD_REASON_OFFSET;
  const bool own = !refused.empty();
  const auto why = take_tls_error();
  return told || own ? why : std::string{};
}

std::string take_tls_error() {
  const auto code = ERR_peek_last_error();
  ERR_clear_error();
  if (auto why = std::exchange(refused, {}); !why.empty())
    return why;
  const auto* reason = code == 0 ? nullptr : ERR_reason_error_string(code);
  if (reason == nullptr)
    return "no reason given";
  // What the other side tells has a number above this one (RFC 8446, 6).
  if (ERR_GET_LIB(code) == ERR_LIB_SSL
      && ERR_GET_REASON(code) > SSL_AD_REASON_OFFSET)
    return std::string{"the other side refuses the certificate shown to it ("}
           + reason + ")";
  return reason;
}

} // namespace troupe
