#pragma once

#include "actors/credentials.hpp"

#include <memory>
#include <string>

struct ssl_st;
struct ssl_ctx_st;

namespace troupe {

struct FreeTlsSession {
  void operator()(ssl_st* session) const;
};
using TlsSession = std::unique_ptr<ssl_st, FreeTlsSession>;

/// TLS 1.3 as links use it: both sides show a certificate of the job's
/// authority, no session is resumed, nothing but records of the handshake and
/// of data is sent.
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

private:
  ssl_ctx_st* context_;
};

/// Describes OpenSSL's newest error of this thread and forgets it.
std::string take_tls_error();

} // namespace troupe
