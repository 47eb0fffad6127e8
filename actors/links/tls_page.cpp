#include "actors/links/tls_page.hpp"

#include "actors/certificates/certificate.hpp"
#include "kernels/base/error.hpp"

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <poll.h>

#include <utility>

namespace troupe {
namespace {

class TlsPage : public PageStream {
public:
  explicit TlsPage(TlsSession session) : session_(std::move(session)) {}

  ssize_t read(char* into, size_t size) override {
    ERR_clear_error();
    size_t moved = 0;
    const int done = SSL_read_ex(session_.get(), into, size, &moved);
    return outcome(done, moved);
  }
  ssize_t write(const char* from, size_t size) override {
    ERR_clear_error();
    size_t moved = 0;
    const int done = SSL_write_ex(session_.get(), from, size, &moved);
    return outcome(done, moved);
  }
  short awaits() const override { return awaits_; }
  void end() override {
    ERR_clear_error();
    SSL_shutdown(session_.get());
    ERR_clear_error();
  }

private:
  ssize_t outcome(int done, size_t moved) {
    if (done == 1)
      return static_cast<ssize_t>(moved);
    const int why = SSL_get_error(session_.get(), done);
    awaits_ = why == SSL_ERROR_WANT_WRITE ? POLLOUT : POLLIN;
    return why == SSL_ERROR_WANT_WRITE || why == SSL_ERROR_WANT_READ ? not_now
                                                                     : 0;
  }

  TlsSession session_;
  short awaits_ = POLLIN;
};

std::unique_ptr<PageStream> page_over(TlsSession session) {
  return session ? std::make_unique<TlsPage>(std::move(session)) : nullptr;
}

} // namespace

std::unique_ptr<PageStream> serve_page(const TlsContext& tls, int socket) {
  return page_over(tls.open_to_anyone(socket));
}

std::unique_ptr<PageStream> read_page(const std::string& authority,
                                      int socket) {
  const auto trusted = certificate_in(authority);
  const std::unique_ptr<SSL_CTX, decltype(&SSL_CTX_free)> context{
    SSL_CTX_new(TLS_client_method()), SSL_CTX_free};
  if (!trusted || !context
      || X509_STORE_add_cert(SSL_CTX_get_cert_store(context.get()),
                             trusted.get())
           != 1)
    throw InputError("certificates: this is no authority's certificate; copy "
                     "the job's ca.pem");
  SSL_CTX_set_min_proto_version(context.get(), TLS1_3_VERSION);
  SSL_CTX_set_verify(context.get(), SSL_VERIFY_PEER, nullptr);
  X509_VERIFY_PARAM_set_flags(SSL_CTX_get0_param(context.get()),
                              X509_V_FLAG_PARTIAL_CHAIN);
  TlsSession session{SSL_new(context.get())};
  if (!session || SSL_set_fd(session.get(), socket) != 1
      || SSL_set1_host(session.get(), host_of(coordinator_name).c_str()) != 1)
    return nullptr;
  SSL_set_connect_state(session.get());
  return page_over(std::move(session));
}

} // namespace troupe
